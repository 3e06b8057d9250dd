// sheetcalc: a spreadsheet evaluator.  Cells hold constants or formulas such
// as "=B12*3+SUM(C1:C9)"; formulas compile to a small stack code, and edits
// recalculate only the cells downstream of the change.
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kCols = 26;
constexpr int kRows = 4200;

struct Op {
    enum Code : uint8_t { Const, Ref, Sum, Add, Sub, Mul, Div } code;
    uint32_t a = 0, b = 0;
    double k = 0;
};

struct Cell {
    explicit Cell(std::string src) : source(std::move(src)) {
        feeds.reserve(128);
    }
    std::string source;
    std::vector<Op> code;
    std::vector<uint32_t> feeds;   // cells whose formulas mention this one
    double value = 0;
    uint32_t mark = 0;
};

class Sheet {
public:
    Sheet() : cells_(size_t(kCols) * kRows) {}

    static uint32_t index(int col, int row) { return uint32_t(row) * kCols + uint32_t(col); }

    void set(int col, int row, std::string text) {
        cells_[index(col, row)] = std::make_unique<Cell>(std::move(text));
    }
    void compile_all() {
        for (uint32_t i = 0; i < cells_.size(); ++i)
            if (cells_[i]) compile(i);
    }
    void recalc_all() {
        ++epoch_;
        order_.clear();
        for (uint32_t i = 0; i < cells_.size(); ++i)
            if (cells_[i]) visit(i);
        run_order();
    }
    void edit(int col, int row, double v) {
        uint32_t i = index(col, row);
        Cell& c = *cells_[i];
        c.code.assign(1, Op{Op::Const, 0, 0, v});
        ++epoch_;
        order_.clear();
        visit(i);
        run_order();
        evaluated_ += order_.size();
    }
    double at(int col, int row) const { return cells_[index(col, row)]->value; }
    uint64_t evaluated() const { return evaluated_; }
    size_t links() const {
        size_t n = 0;
        for (const auto& c : cells_) if (c) n += c->feeds.size();
        return n;
    }

private:
    // ---- formula compiler -------------------------------------------------
    struct Cursor { const char* p; uint32_t self; };

    void compile(uint32_t i) {
        Cell& c = *cells_[i];
        const char* p = c.source.c_str();
        if (*p != '=') {
            c.code.push_back(Op{Op::Const, 0, 0, std::strtod(p, nullptr)});
            return;
        }
        Cursor cur{p + 1, i};
        expr(cur, c.code);
        c.code.shrink_to_fit();
    }
    void expr(Cursor& cur, std::vector<Op>& out) {
        term(cur, out);
        while (*cur.p == '+' || *cur.p == '-') {
            Op::Code op = *cur.p++ == '+' ? Op::Add : Op::Sub;
            term(cur, out);
            out.push_back(Op{op});
        }
    }
    void term(Cursor& cur, std::vector<Op>& out) {
        atom(cur, out);
        while (*cur.p == '*' || *cur.p == '/') {
            Op::Code op = *cur.p++ == '*' ? Op::Mul : Op::Div;
            atom(cur, out);
            out.push_back(Op{op});
        }
    }
    uint32_t ref(Cursor& cur) {
        int col = *cur.p++ - 'A';
        int row = int(std::strtol(cur.p, const_cast<char**>(&cur.p), 10)) - 1;
        return index(col, row);
    }
    void atom(Cursor& cur, std::vector<Op>& out) {
        if (*cur.p == '(') {
            ++cur.p;
            expr(cur, out);
            ++cur.p;
        } else if (cur.p[0] == 'S' && cur.p[1] == 'U') {
            cur.p += 4;
            uint32_t a = ref(cur);
            ++cur.p;
            uint32_t b = ref(cur);
            ++cur.p;
            for (uint32_t i = a; i <= b; i += kCols) cells_[i]->feeds.push_back(cur.self);
            out.push_back(Op{Op::Sum, a, b});
        } else if (std::isupper(static_cast<unsigned char>(*cur.p))) {
            uint32_t a = ref(cur);
            cells_[a]->feeds.push_back(cur.self);
            out.push_back(Op{Op::Ref, a});
        } else {
            double k = std::strtod(cur.p, const_cast<char**>(&cur.p));
            out.push_back(Op{Op::Const, 0, 0, k});
        }
    }
    // ---- evaluation -------------------------------------------------------
    void visit(uint32_t root) {                 // post-order over feeds
        if (cells_[root]->mark == epoch_) return;
        cells_[root]->mark = epoch_;
        stack_.push_back({root, 0});
        while (!stack_.empty()) {
            Frame& f = stack_.back();
            Cell& c = *cells_[f.cell];
            if (f.next < c.feeds.size()) {
                uint32_t d = c.feeds[f.next++];
                if (cells_[d]->mark != epoch_) {
                    cells_[d]->mark = epoch_;
                    stack_.push_back({d, 0});
                }
            } else {
                order_.push_back(f.cell);
                stack_.pop_back();
            }
        }
    }
    void run_order() {
        for (size_t i = order_.size(); i-- > 0;) {
            Cell& c = *cells_[order_[i]];
            c.value = eval(c.code);
        }
    }
    double eval(const std::vector<Op>& code) const {
        double st[16];
        int n = 0;
        for (const Op& o : code) {
            switch (o.code) {
            case Op::Const: st[n++] = o.k; break;
            case Op::Ref: st[n++] = cells_[o.a]->value; break;
            case Op::Sum: {
                double s = 0;
                for (uint32_t i = o.a; i <= o.b; i += kCols) s += cells_[i]->value;
                st[n++] = s;
                break;
            }
            case Op::Add: --n; st[n - 1] += st[n]; break;
            case Op::Sub: --n; st[n - 1] -= st[n]; break;
            case Op::Mul: --n; st[n - 1] *= st[n]; break;
            case Op::Div: --n; st[n - 1] = st[n] != 0 ? st[n - 1] / st[n] : 0; break;
            }
        }
        return n ? st[0] : 0;
    }
    struct Frame { uint32_t cell, next; };
    std::vector<std::unique_ptr<Cell>> cells_;
    std::vector<uint32_t> order_;
    std::vector<Frame> stack_;
    uint32_t epoch_ = 0;
    uint64_t evaluated_ = 0;
};

std::string formula(int col, int row) {
    char buf[96];
    int r = row + 1;
    char l = char('A' + col - 1);
    if (col == 0 || row < 12) return std::to_string((col * 37 + row * 11) % 500);
    switch ((col + row) % 4) {
    case 0: std::snprintf(buf, sizeof buf, "=%c%d*0.75+%d", l, r, row % 17); break;
    case 1: std::snprintf(buf, sizeof buf, "=(%c%d+%c%d)/2", l, r, l, r - 1); break;
    case 2: std::snprintf(buf, sizeof buf, "=SUM(%c%d:%c%d)/9-%c%d", l, r - 7, l, r, l, r); break;
    default: std::snprintf(buf, sizeof buf, "%d", (col * row) % 911); break;
    }
    return buf;
}

}  // namespace

int main() {
    Sheet sheet;
    for (int row = 0; row < kRows; ++row)
        for (int col = 0; col < kCols; ++col) sheet.set(col, row, formula(col, row));
    sheet.compile_all();
    for (int i = 0; i < 20; ++i) sheet.recalc_all();
    for (int i = 0; i < 7000; ++i) sheet.edit(0, (i * 7919) % kRows, i % 331);
    double total = 0;
    for (int row = 0; row < kRows; ++row) total += sheet.at(kCols - 1, row);
    std::printf("links=%zu evaluated=%lu total=%.4f\n", sheet.links(),
                (unsigned long)sheet.evaluated(), total);
    return 0;
}
