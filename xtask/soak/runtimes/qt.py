"""Windows of Qt are laid out and painted without a screen, in a thread pool, too; the pictures are compared."""
import hashlib
import os

os.environ["QT_QPA_PLATFORM"] = "offscreen"
from PyQt5.QtCore import QBuffer, QRunnable, QThreadPool
from PyQt5.QtGui import QColor, QImage, QPainter, QStandardItem, QStandardItemModel, QTextDocument
from PyQt5.QtWidgets import QApplication, QTableView, QTextEdit, QTreeWidget, QTreeWidgetItem, QVBoxLayout, QWidget

application = QApplication(["soak"])


def picture(image):
    image = image.convertToFormat(QImage.Format_RGB32)
    bits = image.constBits()
    bits.setsize(image.sizeInBytes())
    return hashlib.sha256(bytes(bits)).hexdigest()[:16]


for round in range(6):
    window = QWidget()
    layout = QVBoxLayout(window)
    model = QStandardItemModel(300, 12)
    for row in range(300):
        for column in range(12):
            model.setItem(row, column, QStandardItem(f"{row * column * 2654435761 % 9973:x}"))
    table, text, tree = QTableView(), QTextEdit(), QTreeWidget()
    table.setModel(model)
    model.sort(round % 12)
    text.setHtml("".join(f"<p>line <b>{n}</b> of <i>{round}</i></p>" for n in range(400)))
    text.setCursorWidth(0)
    for n in range(200):
        item = QTreeWidgetItem(tree, [f"node {n}"])
        [QTreeWidgetItem(item, [f"leaf {m}"]) for m in range(10)]
    for part in table, text, tree:
        layout.addWidget(part)
    window.resize(700 + 10 * round, 900)
    window.show()
    application.processEvents()
    print(picture(window.grab().toImage()))
    window.close()
    del window, layout, table, text, tree, model


class Paint(QRunnable):
    def __init__(self, seed, into):
        super().__init__()
        self.seed, self.into = seed, into

    def run(self):
        image = QImage(300, 300, QImage.Format_RGB32)
        image.fill(QColor("white"))
        painter = QPainter(image)
        for n in range(2000):
            painter.fillRect(n * self.seed % 300, n * 31 % 300, 9, 9, QColor(n % 256, n * 7 % 256, self.seed % 256))
        painter.end()
        self.into[self.seed] = picture(image)


found = {}
for seed in range(1, 25):
    QThreadPool.globalInstance().start(Paint(seed, found))
QThreadPool.globalInstance().waitForDone()
print(*(found[seed] for seed in sorted(found)))
document = QTextDocument()
document.setHtml("<table>" + "".join(f"<tr><td>{n}</td><td>{n * n}</td></tr>" for n in range(500)) + "</table>")
buffer = QBuffer()
print(len(document.toPlainText()), document.pageCount(), buffer.open(QBuffer.WriteOnly))
