// One function for each way in which C++ allocates, each in a section of its own, so that the linker says where it is.
// For each: its name, where it begins and ends, and how many bytes it asks for in all.
#include <cstddef>
#include <cstdio>
#include <map>
#include <new>
#include <string>
#include <vector>

struct alignas(64) Wide {
    char bytes[192];
};

static void *volatile kept;

// What a function does after its call, so that the call is not its last act: that would leave no frame of it to be found.
static inline size_t keep(void *block, size_t size) {
    kept = block;
    return size;
}

#define EACH(what)                                                                                 \
    what(plain) what(array) what(large) what(plain_nothrow) what(array_nothrow) what(aligned)      \
    what(aligned_array) what(aligned_nothrow) what(aligned_array_nothrow) what(vectors)            \
    what(strings) what(maps)

#define SITE(name) __attribute__((noinline, noclone, section("site_" #name))) size_t name(int number)
#define DECLARE(name)                                                                              \
    extern "C" char __start_site_##name[], __stop_site_##name[];                                   \
    SITE(name);
EACH(DECLARE)

SITE(plain) { return keep(::operator new(200), 200); }
SITE(array) { return keep(new char[300], 300); }
SITE(large) { return keep(::operator new(50000), 50000); }
SITE(plain_nothrow) { return keep(::operator new(120, std::nothrow), 120); }
SITE(array_nothrow) { return keep(::operator new[](120, std::nothrow), 120); }
SITE(aligned) { return keep(new Wide, sizeof(Wide)); }
SITE(aligned_array) { return keep(::operator new[](640, std::align_val_t(128)), 640); }
SITE(aligned_nothrow) { return keep(::operator new(256, std::align_val_t(64), std::nothrow), 256); }
SITE(aligned_array_nothrow) {
    return keep(::operator new[](256, std::align_val_t(64), std::nothrow), 256);
}
SITE(vectors) {
    std::vector<int> all;
    size_t bytes = 0;
    for (int i = 0; i < 300; i++) {
        size_t room = all.capacity();
        all.push_back(number);
        if (all.capacity() != room) bytes += all.capacity() * sizeof(int);
    }
    return bytes;
}
SITE(strings) {
    std::string text(100 + number % 8, 'x');
    kept = &text[0];
    return text.capacity() + 1;
}
SITE(maps) {
    std::map<int, long> all;
    for (int i = 0; i < 20; i++) all[i * number] = i;
    // A node: its colour and three pointers, then the pair.
    return all.size() * (32 + sizeof(std::pair<const int, long>));
}

int main() {
    const size_t enough = 8 << 20;
#define ASK(name)                                                                                  \
    {                                                                                              \
        size_t bytes = 0;                                                                          \
        for (int number = 1; bytes < enough; number++) bytes += name(number);                      \
        printf("%s %zx %zx %zu\n", #name, (size_t)__start_site_##name,                             \
               (size_t)__stop_site_##name, bytes);                                                 \
    }
    EACH(ASK)
    return 0;
}
