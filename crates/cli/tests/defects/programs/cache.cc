// A cache of answers that nobody ever empties; its destructor frees it all.
#include <memory>
#include <string>
#include <unordered_map>

struct Answer {
  char page[3000];
};

static std::unordered_map<int, std::unique_ptr<Answer>> cache;

static Answer &render(int question) {
  auto &slot = cache[question];
  if (!slot) {
    slot = std::make_unique<Answer>();  // the defect
    slot->page[question % 3000] = 1;
  }
  return *slot;
}

int main() {
  int sum = 0;
  for (int i = 0; i < 40000; i++) {
    std::string question = "what is the answer to question number " + std::to_string(i);
    sum += render(i % 3 ? i / 3 : i).page[5] + static_cast<int>(question.size());
  }
  return sum == 42;
}
