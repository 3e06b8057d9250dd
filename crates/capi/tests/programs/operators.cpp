// operator new and delete: every form, and what happens when memory is short.
#include "check.h"
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

static const size_t huge = size_t(1) << 60;

template <class F> static bool throws_bad_alloc(F f) {
    try {
        f();
        return false;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

// Of the program's own, thrown by a handler: it passes through operator new like any other.
struct Enough {
    int calls;
};

static bool handler_may_throw() {
    std::set_new_handler([] { throw Enough{7}; });
    int calls = 0;
    try {
        ::operator new(huge);
    } catch (const Enough &enough) {
        calls += enough.calls;
    }
    try {
        ::operator new[](huge, std::align_val_t(4096));
    } catch (const Enough &enough) {
        calls += enough.calls;
    }
    std::set_new_handler(nullptr);
    return calls == 14;
}

struct alignas(256) Wide {
    char bytes[300];
};

static int handled;

int main() {
    CHECK(throws_bad_alloc([] { return ::operator new(huge); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](huge); }));
    CHECK(throws_bad_alloc([] { return ::operator new(huge, std::align_val_t(64)); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](huge, std::align_val_t(64)); }));
    CHECK(!::operator new(huge, std::nothrow));
    CHECK(!::operator new[](huge, std::nothrow));
    CHECK(!::operator new(huge, std::align_val_t(64), std::nothrow));
    CHECK(!::operator new[](huge, std::align_val_t(64), std::nothrow));
    std::set_new_handler([] {
        if (++handled == 3) std::set_new_handler(nullptr);
    });
    CHECK(throws_bad_alloc([] { return ::operator new(huge); }) && handled == 3);
    CHECK(handler_may_throw());
    for (size_t size = 0; size < 100000; size = size * 2 + 1) {
        ::operator delete(::operator new(size));
        ::operator delete[](::operator new[](size));
        ::operator delete(::operator new(size), size);
        ::operator delete[](::operator new[](size), size);
        ::operator delete(::operator new(size, std::nothrow), std::nothrow);
        ::operator delete(::operator new(size, std::align_val_t(64)), std::align_val_t(64));
        ::operator delete(::operator new(size, std::align_val_t(64)), size, std::align_val_t(64));
    }
    Wide *wide = new Wide;
    CHECK(reinterpret_cast<uintptr_t>(wide) % 256 == 0);
    delete wide;
    std::vector<std::string> words;
    for (int i = 0; i < 10000; i++) words.push_back(std::string(i % 300, 'x'));
    size_t sum = 0;
    for (auto &word : words) sum += word.size();
    CHECK(sum == 1485000);
    return broken != 0;
}
