-- Tables, strings, closures, coroutines, the collector in both modes; what it prints is compared.
local function hash(text)
  local sum = 5381
  for i = 1, #text do sum = (sum * 33 + text:byte(i)) % 4294967296 end
  return sum
end
local rows, keys = {}, {}
for i = 1, 25000 do
  local key = string.format('%x', i * 2654435761 % 65521)
  rows[key] = rows[key] or {}
  table.insert(rows[key], { id = i, text = key:rep(i % 40) })
  if i % 3 == 0 then rows[string.format('%x', (i - 300) * 2654435761 % 65521)] = nil end
end
for key in pairs(rows) do keys[#keys + 1] = key end
table.sort(keys)
print(#keys, hash(table.concat(keys, ',')))
local parts = {}
for n = 1, 6000 do parts[n] = 'w' .. n .. '=' .. ('x'):rep(n % 50) end
local text = table.concat(parts, ' ')
print(hash(text), select(2, text:gsub('%d+', function(m) return '<' .. m * 3 .. '>' end)))
local function tree(depth) return depth > 0 and { tree(depth - 1), tree(depth - 1) } or {} end
for _, mode in ipairs { 'incremental', 'generational' } do
  collectgarbage(mode)
  for _ = 1, 6 do tree(11) end
  collectgarbage()
end
local weak = setmetatable({}, { __mode = 'k' })
for _ = 1, 5000 do weak[{}] = setmetatable({}, { __gc = function() end }) end
collectgarbage()
print(next(weak))
local sum, all = 0, {}
for n = 1, 1000 do
  all[n] = coroutine.wrap(function(...) local t = { ... } for i = 1, 20 do coroutine.yield(#t + i) end return n end)
end
for _ = 1, 21 do for n = 1, 1000 do sum = sum + all[n](n, n) end end
print(sum)
for bits = 16, 26 do text = ('\1'):rep(1 << bits) .. 'end' end
print(#text, load('return ' .. ('1+'):rep(5000) .. '1')())
print(pcall(string.rep, 'x', 1 << 60))
