#!/bin/sh
# A sheet and a text are read, computed, converted through several formats and back; the plain forms are compared.
set -eu
export HOME="$PWD"
convert() {
  soffice "-env:UserInstallation=file://$PWD/profile" --headless --norestore --convert-to "$@" >>log 2>&1
}
awk 'BEGIN { for (i = 1; i <= 3000; i++) printf "%d,%d,word %d,=A%d*2+B%d,=SUM(A1:A%d)\n", i, i * 7919 % 1009, i % 97, i, i, i }' >sheet.csv
awk 'BEGIN { print "<html><body>"; for (i = 1; i <= 800; i++) printf "<h%d>Head %d</h%d><p>Text <b>%d</b> of <i>%d</i></p><ul><li>%d</li></ul>", i % 6 + 1, i, i % 6 + 1, i, i * i, i; print "</body></html>" }' >text.html
convert ods sheet.csv
convert xlsx sheet.ods
rm sheet.csv
convert csv sheet.xlsx
cksum <sheet.csv
convert odt --infilter='HTML (StarWriter)' text.html
convert docx text.odt
convert rtf text.docx
convert txt:Text text.rtf
cksum <text.txt
convert pdf text.docx
test -s text.pdf
if grep 'freehold:' log; then exit 1; fi
