// What g++ compiles for the study of fragmentation: a page of ordinary C++ that instantiates much of the library.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

struct Word {
    std::string text;
    std::map<std::string, std::vector<int>> places;
    std::shared_ptr<Word> next;
};

template <int N> struct Tower {
    std::map<int, std::set<std::string>> floor;
    Tower<N - 1> below;
    int height() const { return static_cast<int>(floor.size()) + below.height(); }
};
template <> struct Tower<0> {
    int height() const { return 0; }
};

int main() {
    std::unordered_map<std::string, std::unique_ptr<Word>> words;
    std::regex letters("[a-z]+(-[a-z]+)?");
    std::string line;
    while (std::getline(std::cin, line)) {
        for (std::sregex_iterator it(line.begin(), line.end(), letters), end; it != end; ++it) {
            auto &word = words[it->str()];
            if (!word) word = std::make_unique<Word>(Word{it->str(), {}, nullptr});
            word->places[line].push_back(static_cast<int>(it->position()));
        }
    }
    std::vector<std::pair<std::string, size_t>> ranked;
    for (auto &[text, word] : words) ranked.emplace_back(text, word->places.size());
    std::sort(ranked.begin(), ranked.end(), [](auto &a, auto &b) { return a.second > b.second; });
    std::ostringstream out;
    for (auto &[text, count] : ranked) out << text << ' ' << count << '\n';
    std::cout << out.str() << Tower<40>().height() << '\n';
}
