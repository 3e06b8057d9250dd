// A compiler's day: templates, maps, strings and many small functions. Generated once and committed; g++ -O2
// compiles it as one of the real programs (and histogram.c counts cc1plus's requests on it).
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

template <typename Key, typename Value> struct Store {
    std::map<Key, std::vector<Value>> rows;
    void add(const Key &key, Value value) { rows[key].push_back(std::move(value)); }
    template <typename Fold, typename Start> Start fold(Start start, Fold each) const {
        for (const auto &[key, values] : rows)
            for (const auto &value : values) start = each(start, key, value);
        return start;
    }
};
template <int N> struct Shape {
    virtual ~Shape() = default;
    virtual long area(long side) const { return side * N + Shape<N - 1>().area(side - 1); }
};
template <> struct Shape<0> { long area(long side) const { return side; } };


struct Record0 { int id; std::string name; std::variant<int, std::string, double> extra; };
long work0(const std::vector<Record0> &records) {
    Store<std::string, long> store;
    for (const auto &record : records) {
        long weight = std::visit([](const auto &value) { if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) return long(value.size()); else return long(value) * 42; }, record.extra);
        store.add(record.name + "20", weight + Shape<10>().area(record.id));
    }
    std::vector<std::function<long(long)>> steps{[](long x) { return x * 42 + 1; }, [](long x) { return x ^ 20; }, [](long x) { return x % 52; }};
    long sum = store.fold(0L, [](long sum, const std::string &key, long value) { return sum + long(key.size()) * value; });
    for (const auto &step : steps) sum = step(sum);
    return sum;
}

struct Record1 { int id; std::string name; std::variant<int, std::string, double> extra; };
long work1(const std::vector<Record1> &records) {
    Store<std::string, long> store;
    for (const auto &record : records) {
        long weight = std::visit([](const auto &value) { if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) return long(value.size()); else return long(value) * 84; }, record.extra);
        store.add(record.name + "7", weight + Shape<11>().area(record.id));
    }
    std::vector<std::function<long(long)>> steps{[](long x) { return x * 84 + 1; }, [](long x) { return x ^ 7; }, [](long x) { return x % 11; }};
    long sum = store.fold(0L, [](long sum, const std::string &key, long value) { return sum + long(key.size()) * value; });
    for (const auto &step : steps) sum = step(sum);
    return sum;
}

struct Record2 { int id; std::string name; std::variant<int, std::string, double> extra; };
long work2(const std::vector<Record2> &records) {
    Store<std::string, long> store;
    for (const auto &record : records) {
        long weight = std::visit([](const auto &value) { if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) return long(value.size()); else return long(value) * 69; }, record.extra);
        store.add(record.name + "13", weight + Shape<12>().area(record.id));
    }
    std::vector<std::function<long(long)>> steps{[](long x) { return x * 69 + 1; }, [](long x) { return x ^ 13; }, [](long x) { return x % 48; }};
    long sum = store.fold(0L, [](long sum, const std::string &key, long value) { return sum + long(key.size()) * value; });
    for (const auto &step : steps) sum = step(sum);
    return sum;
}

struct Record3 { int id; std::string name; std::variant<int, std::string, double> extra; };
long work3(const std::vector<Record3> &records) {
    Store<std::string, long> store;
    for (const auto &record : records) {
        long weight = std::visit([](const auto &value) { if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) return long(value.size()); else return long(value) * 75; }, record.extra);
        store.add(record.name + "8", weight + Shape<13>().area(record.id));
    }
    std::vector<std::function<long(long)>> steps{[](long x) { return x * 75 + 1; }, [](long x) { return x ^ 8; }, [](long x) { return x % 66; }};
    long sum = store.fold(0L, [](long sum, const std::string &key, long value) { return sum + long(key.size()) * value; });
    for (const auto &step : steps) sum = step(sum);
    return sum;
}

struct Record4 { int id; std::string name; std::variant<int, std::string, double> extra; };
long work4(const std::vector<Record4> &records) {
    Store<std::string, long> store;
    for (const auto &record : records) {
        long weight = std::visit([](const auto &value) { if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) return long(value.size()); else return long(value) * 28; }, record.extra);
        store.add(record.name + "5", weight + Shape<14>().area(record.id));
    }
    std::vector<std::function<long(long)>> steps{[](long x) { return x * 28 + 1; }, [](long x) { return x ^ 5; }, [](long x) { return x % 13; }};
    long sum = store.fold(0L, [](long sum, const std::string &key, long value) { return sum + long(key.size()) * value; });
    for (const auto &step : steps) sum = step(sum);
    return sum;
}
