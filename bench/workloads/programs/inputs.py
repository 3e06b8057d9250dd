"""Writes what some programs of the bench read into a folder: the same bytes each time.

    python3 inputs.py FOLDER
"""
import os
import random
import sys

FOLDER = sys.argv[1]
DRAWN = random.Random(20261127)


def write(name, lines):
    path = os.path.join(FOLDER, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.writelines(line + "\n" for line in lines)


def word():
    return "".join(DRAWN.choice("etaoinshrdlcumwfg") for _ in range(DRAWN.randint(3, 11)))


def graph(nodes):
    """A tree with some edges across, to be laid out by rank."""
    yield "digraph g {"
    for node in range(1, nodes):
        yield f'  n{DRAWN.randrange(node)} -> n{node} [label="{word()}"];'
    for _ in range(nodes // 20):
        first, second = sorted(DRAWN.sample(range(nodes), 2))
        yield f"  n{first} -> n{second};"
    yield "}"


def header(number):
    """A header with documented classes."""
    for nth in range(12):
        name = f"C{number}_{nth}"
        parent = f" : public C{number}_{nth - 1}" if nth else ""
        yield f"/** The {word()} of a {word()}. @see C{number}_0 */"
        yield f"class {name}{parent} {{ public:"
        for method in range(8):
            yield f"/** Has {word()} {word()}. @param a a {word()} @return the {word()} */"
            yield f"int {word()}_{method}(int a, const char *b);"
        yield "};"


def code(functions):
    """C++ that is badly laid out."""
    for number in range(functions):
        yield f"template<class T>std::vector<T>f{number}(const std::map<T,int>&a,int b){{std::vector<T>r;"
        for _ in range(6):
            one, other = word(), word()
            yield f"for(auto&{one}:a){{if({one}.second>b&&b!={DRAWN.randrange(99)}){{r.push_back({one}.first);/*{other}*/}}"
            yield f"else   {{ b+={one}.second*{DRAWN.randrange(9)}; }} }}"
        yield "return r;}"


def table(rows):
    """Records, as XML."""
    yield "<table>"
    for number in range(rows):
        yield f'<row id="{number}"><name>{word()}</name><price>{DRAWN.randrange(10**5)}</price><kind>{word()[:3]}</kind></row>'
    yield "</table>"


def places(count):
    """Polygons, as GeoJSON."""
    yield '{"type":"FeatureCollection","features":['
    for number in range(count):
        x, y = DRAWN.uniform(-170, 170), DRAWN.uniform(-80, 80)
        ring = [(x + DRAWN.random(), y + DRAWN.random()) for _ in range(12)]
        corners = ",".join(f"[{east:.6f},{north:.6f}]" for east, north in [*ring, ring[0]])
        comma = "," if number + 1 < count else ""
        yield (
            f'{{"type":"Feature","properties":{{"name":"{word()}","people":{DRAWN.randrange(10**6)}}},'
            f'"geometry":{{"type":"Polygon","coordinates":[[{corners}]]}}}}{comma}'
        )
    yield "]}"


write("graph.dot", graph(900))
for number in range(60):
    write(f"headers/h{number}.h", header(number))
write(
    "Doxyfile",
    [
        f"INPUT = {os.path.join(FOLDER, 'headers')}",
        f"OUTPUT_DIRECTORY = {os.path.join(FOLDER, 'documented')}",
        "QUIET = YES",
        "GENERATE_LATEX = NO",
        "HAVE_DOT = NO",
        "CLASS_GRAPH = NO",
        "TIMESTAMP = NO",
        "SEARCHENGINE = NO",
    ],
)
write("code.cpp", code(400))
write("table.xml", table(60000))
write("places.json", places(12000))
write("words.txt", (word() for _ in range(40)))
