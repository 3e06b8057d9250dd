// Makes room for one more element each time.
#include <vector>

struct Sample {
  double time, value;
};

static void add(std::vector<Sample> &samples, int i) {
  samples.reserve(samples.size() + 1);  // the defect
  samples.push_back({i * 0.1, i * 2.0});
}

int main() {
  std::vector<Sample> samples;
  for (int i = 0; i < 10000; i++) add(samples, i);
  return samples.back().value == 42;
}
