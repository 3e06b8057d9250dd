# Dictionaries, strings, lists and objects: a second or so of an ordinary script.
class Node:
    def __init__(self, key, left=None):
        self.key, self.left, self.words = key, left, []

nodes, index = None, {}
for i in range(120_000):
    nodes = Node("key-%d" % (i % 5_000), nodes if i % 50 else None)
    nodes.words.extend(nodes.key.split("-"))
    index.setdefault(nodes.key, []).append((i, str(i * 7)))
print(sum(len(values) for values in index.values()), len(sorted(index)))
