"""Bounded pure Python: trees of objects, strings, dictionaries, sorting, JSON-like text.

Run with PYTHONMALLOC=malloc, so that every object comes from malloc. Prints one number, the same in every run.
"""


class Node:
    __slots__ = ("left", "right", "name")

    def __init__(self, depth, name):
        self.name = name
        self.left = Node(depth - 1, name + "l") if depth else None
        self.right = Node(depth - 1, name + "r") if depth else None

    def weigh(self):
        below = (self.left.weigh() + self.right.weigh()) if self.left else 0
        return len(self.name) + below


def words(count):
    state = 12345
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        yield "w%x" % (state >> 12)


def index(count):
    table = {}
    for place, word in enumerate(words(count)):
        table.setdefault(word, []).append(place)
    return sum(len(places) * len(word) for word, places in table.items())


def lines(count):
    rows = [{"id": n, "name": "row %d" % n, "tags": [str(n % 7), str(n % 11)]} for n in range(count)]
    text = "\n".join(repr(sorted(row.items())) for row in rows)
    return sum(len(part) for line in text.split("\n") for part in line.split(","))


def main():
    total = 0
    for _ in range(3):
        total += Node(13, "n").weigh() + index(60_000) + lines(12_000)
    print(total)


main()
