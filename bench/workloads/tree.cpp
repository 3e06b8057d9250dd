/* tree KEYS OPS THREADS
 *
 * Strings and a balanced tree through operator new and delete: KEYS possible keys (text of 8-40 characters) in a
 * std::map to a vector of numbers; OPS operations insert, extend or erase one at random and look another up.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>
#include <chrono>

namespace {

std::uint64_t step(std::uint64_t &x) {
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    return x * 0x2545F4914F6CDD1Du;
}

std::string key_of(std::uint64_t number) {
    std::string key = "key/" + std::to_string(number * 2654435761u);
    key.append(number % 29, 'x');
    return key;
}

/* The vector of a key holds the key's number over and over: what is read back must agree. */
void work(std::uint64_t keys, std::uint64_t ops, std::uint64_t seed) {
    std::map<std::string, std::vector<std::uint64_t>> tree;
    std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (std::uint64_t done = 0; done < ops; done++) {
        std::uint64_t random = step(state) >> 20, number = random % keys;
        auto found = tree.find(key_of(number));
        if (found == tree.end()) {
            tree.emplace(key_of(number), std::vector<std::uint64_t>(1 + number % 5, number));
        } else if (random & (1ull << 40)) {
            found->second.push_back(number);
        } else {
            for (std::uint64_t value : found->second)
                if (value != number) { std::fprintf(stderr, "workload: the tree lost a value\n"); std::exit(3); }
            tree.erase(found);
        }
    }
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 4) { std::fprintf(stderr, "workload: tree KEYS OPS THREADS\n"); return 3; }
    std::uint64_t keys = std::strtoull(argv[1], nullptr, 10), ops = std::strtoull(argv[2], nullptr, 10);
    unsigned threads = static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10));
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> all;
    for (unsigned i = 0; i < threads; i++) all.emplace_back(work, keys, ops, i + 1);
    for (auto &thread : all) thread.join();
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("{\"ops\":%llu,\"seconds\":%.6f}\n", static_cast<unsigned long long>(ops * threads), took.count());
}
