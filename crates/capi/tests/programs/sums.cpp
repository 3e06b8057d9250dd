// Strings, maps and plain arrays, small and large; says how many bytes it asked for.
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

static size_t asked = 0;

// What containers ask for goes through here, to operator new.
template <class T> struct Counted {
    using value_type = T;
    Counted() = default;
    template <class U> Counted(const Counted<U> &) {}
    T *allocate(size_t count) {
        asked += count * sizeof(T);
        return static_cast<T *>(::operator new(count * sizeof(T)));
    }
    void deallocate(T *block, size_t) { ::operator delete(block); }
    template <class U> bool operator==(const Counted<U> &) const { return true; }
    template <class U> bool operator!=(const Counted<U> &) const { return false; }
};

using Text = std::basic_string<char, std::char_traits<char>, Counted<char>>;

int main() {
    std::map<int, Text, std::less<int>, Counted<std::pair<const int, Text>>> words;
    std::vector<Text, Counted<Text>> list;
    for (int i = 0; i < 60000; i++) {
        words[i * 7919 % 20011] = Text(20 + i % 300, 'x');
        list.push_back(Text(17 + i % 50, 'y'));
        if (i % 3 == 0) words.erase(i * 31 % 20011);
    }
    for (int i = 0; i < 400; i++) {
        asked += 50000;
        delete[] new (std::nothrow) char[50000];
    }
    std::printf("%zu\n", asked);
}
