// Real headers of the C++ library, instantiated: what a compiler does all day.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

int main(int argc, char **argv) {
  std::map<std::string, std::vector<int>> found;
  std::unordered_map<std::string, std::function<int(int)>> calls;
  const std::regex word("([a-z]+)-([0-9]+)");
  for (int i = 1; i < argc; i++) {
    std::smatch match;
    const std::string text = argv[i];
    if (std::regex_search(text, match, word)) found[match[1]].push_back(std::stoi(match[2]));
    calls[text] = [i](int x) { return x + i; };
  }
  for (auto &[name, values] : found) {
    std::sort(values.begin(), values.end());
    std::cout << name << ' ' << values.size() << '\n';
  }
  return 0;
}
