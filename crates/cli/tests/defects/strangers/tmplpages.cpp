// tmplpages: a small text templating engine ({{path|filter}}, {{#each}},
// {{#if}}) that renders one statement page per customer and keeps the pages
// for a final packing step.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Value;
using Object = std::map<std::string, Value>;

struct Value {
    enum Kind { Null, Number, Text, List, Record } kind = Null;
    long num = 0;
    std::string text;
    std::vector<Value> list;
    std::shared_ptr<Object> rec;

    static Value of(long n) { Value v; v.kind = Number; v.num = n; return v; }
    static Value of(std::string s) { Value v; v.kind = Text; v.text = std::move(s); return v; }
    static Value record() { Value v; v.kind = Record; v.rec = std::make_shared<Object>(); return v; }
    bool truthy() const {
        switch (kind) {
        case Null: return false;
        case Number: return num != 0;
        case Text: return !text.empty();
        case List: return !list.empty();
        case Record: return true;
        }
        return false;
    }
};

struct Node {
    enum Kind { Literal, Var, Each, If } kind;
    std::string text;      // literal text, or the dotted path
    std::string filter;
    std::vector<std::unique_ptr<Node>> body;
};

class Parser {
public:
    explicit Parser(const std::string& src) : s_(src) {}
    std::vector<std::unique_ptr<Node>> parse() {
        std::vector<std::unique_ptr<Node>> out;
        while (pos_ < s_.size()) {
            size_t open = s_.find("{{", pos_);
            if (open == std::string::npos) open = s_.size();
            if (open > pos_) out.push_back(make(Node::Literal, s_.substr(pos_, open - pos_)));
            if (open == s_.size()) { pos_ = open; break; }
            size_t close = s_.find("}}", open);
            if (close == std::string::npos) { std::fprintf(stderr, "unclosed tag\n"); std::exit(2); }
            std::string tag = s_.substr(open + 2, close - open - 2);
            pos_ = close + 2;
            if (tag[0] == '/') return out;
            if (tag.compare(0, 6, "#each ") == 0 || tag.compare(0, 4, "#if ") == 0) {
                bool each = tag[1] == 'e';
                auto n = make(each ? Node::Each : Node::If, tag.substr(each ? 6 : 4));
                n->body = parse();
                out.push_back(std::move(n));
                continue;
            }
            size_t bar = tag.find('|');
            auto n = make(Node::Var, tag.substr(0, bar));
            if (bar != std::string::npos) n->filter = tag.substr(bar + 1);
            out.push_back(std::move(n));
        }
        return out;
    }
private:
    static std::unique_ptr<Node> make(Node::Kind k, std::string t) {
        auto n = std::make_unique<Node>();
        n->kind = k;
        n->text = std::move(t);
        return n;
    }
    const std::string& s_;
    size_t pos_ = 0;
};

std::vector<std::string> split_path(const std::string& path) {
    std::vector<std::string> parts;
    size_t from = 0;
    for (;;) {
        size_t dot = path.find('.', from);
        if (dot == std::string::npos) {
            parts.push_back(path.substr(from));
            return parts;
        }
        parts.push_back(path.substr(from, dot - from));
        from = dot + 1;
    }
}

class Renderer {
public:
    explicit Renderer(std::string& out) : out_(out) {}
    void render(const std::vector<std::unique_ptr<Node>>& nodes, const Value& root) {
        scopes_.assign(1, &root);
        walk(nodes);
    }
private:
    const Value* lookup(const std::string& path) const {
        std::vector<std::string> parts = split_path(path);
        for (size_t i = scopes_.size(); i-- > 0;) {
            const Value* v = scopes_[i];
            for (const std::string& p : parts) {
                if (!v || v->kind != Value::Record) { v = nullptr; break; }
                auto it = v->rec->find(p);
                v = it == v->rec->end() ? nullptr : &it->second;
            }
            if (v) return v;
        }
        return nullptr;
    }
    void walk(const std::vector<std::unique_ptr<Node>>& nodes) {
        for (const auto& n : nodes) {
            if (n->kind == Node::Literal) { out_.append(n->text); continue; }
            const Value* v = lookup(n->text);
            if (!v) continue;
            if (n->kind == Node::Var) {
                emit(*v, n->filter);
            } else if (n->kind == Node::If) {
                if (v->truthy()) walk(n->body);
            } else {
                for (const Value& item : v->list) {
                    scopes_.push_back(&item);
                    walk(n->body);
                    scopes_.pop_back();
                }
            }
        }
    }
    void emit(const Value& v, const std::string& filter) {
        char num[40];
        if (v.kind == Value::Number) {
            int n = filter == "money"
                ? std::snprintf(num, sizeof num, "%ld.%02ld", v.num / 100, v.num % 100)
                : std::snprintf(num, sizeof num, "%ld", v.num);
            out_.append(num, static_cast<size_t>(n));
            return;
        }
        for (char c : v.text) {
            if (filter == "upper" && c >= 'a' && c <= 'z') out_.push_back(char(c - 32));
            else if (c == '&') out_.append("&amp;");
            else if (c == '<') out_.append("&lt;");
            else out_.push_back(c);
        }
    }
    std::string& out_;
    std::vector<const Value*> scopes_;
};

uint32_t seed = 99;
uint32_t rnd(uint32_t n) { seed = seed * 1664525u + 1013904223u; return (seed >> 8) % n; }

Value make_customer(int id) {
    static const char* first[] = {"Ada", "Grace", "Linus", "Barbara", "Dennis", "Frances"};
    static const char* goods[] = {"hex bolt, zinc", "cable & plug", "filter <large>", "gasket", "spring washer"};
    Value c = Value::record(), who = Value::record(), acct = Value::record();
    (*who.rec)["display_name"] = Value::of(std::string(first[rnd(6)]) + " no. " + std::to_string(id));
    (*who.rec)["city"] = Value::of(std::string(rnd(2) ? "Rotterdam" : "Gdansk"));
    (*acct.rec)["balance_in_cents"] = Value::of(long(rnd(900000)));
    (*acct.rec)["overdue"] = Value::of(long(rnd(3) == 0));
    Value lines;
    lines.kind = Value::List;
    lines.list.reserve(14);
    for (int i = 0; i < 14; ++i) {
        Value line = Value::record(), item = Value::record();
        (*item.rec)["description"] = Value::of(std::string(goods[rnd(5)]));
        (*item.rec)["unit_price_in_cents"] = Value::of(long(rnd(20000)));
        (*line.rec)["ordered_item"] = std::move(item);
        (*line.rec)["quantity"] = Value::of(long(1 + rnd(40)));
        lines.list.push_back(std::move(line));
    }
    (*c.rec)["customer_identity"] = std::move(who);
    (*c.rec)["account_statement"] = std::move(acct);
    (*c.rec)["statement_lines"] = std::move(lines);
    return c;
}

const char kPage[] =
    "<h1>{{customer_identity.display_name|upper}}</h1><p>{{customer_identity.city}}</p>\n"
    "{{#if account_statement.overdue}}<b>Overdue: {{account_statement.balance_in_cents|money}}</b>\n{{/if}}"
    "<table>\n{{#each statement_lines}}<tr><td>{{ordered_item.description}}</td>"
    "<td>{{quantity}}</td><td>{{ordered_item.unit_price_in_cents|money}}</td>"
    "<td>{{customer_identity.city}}</td></tr>\n{{/each}}</table>\n"
    "<p>Balance {{account_statement.balance_in_cents|money}}</p>\n";

}  // namespace

int main() {
    std::string src(kPage);
    auto page = Parser(src).parse();
    std::vector<Value> customers;
    customers.reserve(1500);
    for (int i = 0; i < 1500; ++i) customers.push_back(make_customer(i));

    std::vector<std::string> pages;
    std::string work;
    work.reserve(8192);
    for (int month = 0; month < 6; ++month)
        for (const Value& c : customers) {
            work.clear();
            Renderer(work).render(page, c);
            if (month % 12 == 0) pages.push_back(work);
        }
    uint64_t h = 1469598103934665603ull;
    size_t bytes = 0;
    for (const std::string& p : pages) {
        for (unsigned char ch : p) h = (h ^ ch) * 1099511628211ull;
        bytes += p.size();
    }
    std::printf("pages=%zu bytes=%zu hash=%016lx\n", pages.size(), bytes, (unsigned long)h);
    return 0;
}
