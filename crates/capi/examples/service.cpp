// A service in C++ on Freehold: standard containers in a heap of their own, by way of std::pmr.
//
//   c++ -std=c++17 service.cpp $(pkg-config --cflags --libs freehold) -o service && ./service

#include <freehold.h>

#include <iostream>
#include <memory_resource>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

// A heap that containers can be told to use; what they hold ends with it.
class heap : public std::pmr::memory_resource {
public:
    explicit heap(const char *name, std::size_t limit = 0) : heap_(freehold_heap_create(limit, name)) {
        if (!heap_) throw std::bad_alloc();
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    ~heap() override { freehold_heap_destroy(heap_); }

    freehold_heap_stats stats() const {
        freehold_heap_stats stats;
        freehold_heap_get_stats(heap_, &stats, sizeof stats);
        return stats;
    }

private:
    void *do_allocate(std::size_t size, std::size_t align) override {
        if (void *block = freehold_heap_aligned_alloc(heap_, align, size)) return block;
        throw std::bad_alloc();
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override { freehold_heap_free(heap_, block); }
    bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }

    freehold_heap *heap_;
};

int main() {
    heap cache("cache");
    std::pmr::unordered_map<std::pmr::string, std::pmr::vector<int>> index(&cache);
    for (int i = 0; i < 10000; i++) {
        std::pmr::string key("a key that is too long to lie in the string ", &cache);
        key += std::to_string(i % 500);
        index[key].push_back(i);
    }
    std::cout << index.size() << " keys, " << cache.stats().blocks << " blocks\n";

    heap small("small", 1 << 20);
    try {
        std::pmr::vector<char> much(8 << 20, 'x', &small);
        return 1;
    } catch (const std::bad_alloc &) {
        std::cout << "8 MiB in a heap of 1 MiB: bad_alloc\n";
    }
    // What is not told otherwise (this string) is in the process's own heap.
    std::string text(1000, 'x');
    return text.size() == 1000 && cache.stats().blocks >= 1000 ? 0 : 1;
}
