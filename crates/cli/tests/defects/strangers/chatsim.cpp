// chatsim: a chat server under simulated load.  Connections arrive in waves;
// each is served by its own thread that decodes frames, routes messages to
// rooms and sends replies.  A summary of all connections is printed at the end.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kWaves = 40;
constexpr int kPerWave = 8;
constexpr int kFramesPerClient = 8000;
constexpr size_t kWindow = 224 * 1024;
constexpr size_t kRoomHistory = 400;

struct Rng {
    uint64_t s;
    explicit Rng(uint64_t seed) : s(seed * 0x9E3779B97F4A7C15ull + 1) {}
    uint32_t next() {
        s ^= s << 13; s ^= s >> 7; s ^= s << 17;
        return static_cast<uint32_t>(s >> 32);
    }
};

struct Message {
    int from;
    std::string text;
};

class Room {
public:
    explicit Room(std::string name) : name_(std::move(name)) {}
    void post(int from, const char* p, size_t n) {
        auto m = std::make_shared<Message>();
        m->from = from;
        m->text.assign(p, n);
        std::lock_guard<std::mutex> lk(mu_);
        history_.push_back(std::move(m));
        if (history_.size() > kRoomHistory) history_.pop_front();
        ++posts_;
        bytes_ += n;
    }
    void report() const {
        std::printf("room %-10s posts=%lu bytes=%lu kept=%zu\n", name_.c_str(),
                    (unsigned long)posts_, (unsigned long)bytes_, history_.size());
    }
private:
    std::string name_;
    std::mutex mu_;
    std::deque<std::shared_ptr<Message>> history_;
    uint64_t posts_ = 0, bytes_ = 0;
};

struct Stats {
    uint64_t frames = 0, bytes = 0, pings = 0, checksum = 0;
};

// Sliding window of received bytes; frames are decoded in place.
class FrameDecoder {
public:
    FrameDecoder() : window_(new char[kWindow]), head_(0), tail_(0) {}
    void feed(const char* p, size_t n) {
        if (tail_ + n > kWindow) {
            std::memmove(window_.get(), window_.get() + head_, tail_ - head_);
            tail_ -= head_;
            head_ = 0;
        }
        std::memcpy(window_.get() + tail_, p, n);
        tail_ += n;
    }
    bool next(const char** body, uint16_t* len) {
        if (tail_ - head_ < 2) return false;
        std::memcpy(len, window_.get() + head_, 2);
        if (tail_ - head_ < size_t(*len) + 2) return false;
        *body = window_.get() + head_ + 2;
        head_ += size_t(*len) + 2;
        return true;
    }
private:
    std::unique_ptr<char[]> window_;
    size_t head_, tail_;
};

class Connection {
public:
    Connection(int id, std::vector<std::unique_ptr<Room>>& rooms)
        : id_(id), nick_("visitor-from-gateway-" + std::to_string(id)), rooms_(rooms) {}

    void start() { thread_ = std::thread(&Connection::serve, this); }
    void finish() {
        thread_.join();
        open_ = false;
    }
    int id() const { return id_; }
    bool open() const { return open_; }
    const std::string& nick() const { return nick_; }
    const Stats& stats() const { return stats_; }

private:
    void serve() {
        Rng rng(static_cast<uint64_t>(id_) + 77);
        std::vector<char> packet;
        packet.reserve(2048);
        for (int i = 0; i < kFramesPerClient; ++i) {
            receive(rng, packet);
            decoder_.feed(packet.data(), packet.size());
            const char* body;
            uint16_t len;
            while (decoder_.next(&body, &len)) handle(body, len);
        }
    }
    static void receive(Rng& rng, std::vector<char>& packet) {
        static const char words[] = "hello there who is around tonight for the match "
                                    "and did anyone see the release notes yet lol ";
        uint16_t len = static_cast<uint16_t>(24 + rng.next() % 120);
        packet.resize(len + 2u);
        std::memcpy(packet.data(), &len, 2);
        packet[2] = static_cast<char>(rng.next() % 16);
        packet[3] = rng.next() % 9 == 0 ? 'P' : 'M';
        for (uint16_t i = 2; i < len; ++i)
            packet[i + 2u] = words[(rng.s + i) % (sizeof words - 1)];
    }
    void handle(const char* body, uint16_t len) {
        ++stats_.frames;
        stats_.bytes += len;
        for (uint16_t i = 0; i < len; ++i)
            stats_.checksum = stats_.checksum * 131 + static_cast<unsigned char>(body[i]);
        if (body[1] == 'P') { ++stats_.pings; return; }
        if (stats_.frames % 4 == 0)
            rooms_[static_cast<size_t>(body[0]) % rooms_.size()]->post(id_, body + 2, len - 2u);
    }

    int id_;
    bool open_ = true;
    std::string nick_;
    std::vector<std::unique_ptr<Room>>& rooms_;
    FrameDecoder decoder_;
    Stats stats_;
    std::thread thread_;
};

class Server {
public:
    Server() {
        static const char* names[] = {"lobby", "sports", "releases", "music", "offtopic", "help"};
        for (const char* n : names) rooms_.push_back(std::make_unique<Room>(n));
    }
    Connection* accept() {
        auto c = std::make_unique<Connection>(next_id_, rooms_);
        Connection* raw = c.get();
        connections_.emplace(next_id_++, std::move(c));
        raw->start();
        return raw;
    }
    void run() {
        for (int w = 0; w < kWaves; ++w) {
            std::vector<Connection*> live;
            for (int i = 0; i < kPerWave; ++i) live.push_back(accept());
            for (Connection* c : live) c->finish();
        }
    }
    void report() const {
        Stats all;
        size_t closed = 0;
        for (const auto& kv : connections_) {
            const Stats& s = kv.second->stats();
            all.frames += s.frames;
            all.bytes += s.bytes;
            all.pings += s.pings;
            all.checksum ^= s.checksum + kv.second->nick().size();
            closed += !kv.second->open();
        }
        std::printf("connections=%zu closed=%zu frames=%lu bytes=%lu pings=%lu sum=%016lx\n",
                    connections_.size(), closed, (unsigned long)all.frames,
                    (unsigned long)all.bytes, (unsigned long)all.pings,
                    (unsigned long)all.checksum);
        for (const auto& r : rooms_) r->report();
    }
private:
    std::vector<std::unique_ptr<Room>> rooms_;
    std::map<int, std::unique_ptr<Connection>> connections_;
    int next_id_ = 1;
};

}  // namespace

int main() {
    Server server;
    server.run();
    server.report();
    return 0;
}
