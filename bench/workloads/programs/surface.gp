set terminal svg size 800,600
set isosamples 150,150
set hidden3d
splot sin(x) * cos(y) * exp(-(x * x + y * y) / 60) notitle
set pm3d map
splot sin(x * y / 4) + cos(x - y) notitle
