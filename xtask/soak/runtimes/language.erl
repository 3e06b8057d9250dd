#!/usr/bin/env escript
%% Processes by the ten thousand, messages, binaries, tables, ports and code loading; what it prints is compared.
%%! +S 4:4 +A 4
-mode(compile).
main(_) ->
    Self = self(),
    Work = fun(Seed) ->
        Rows = [{N, binary:copy(<<N:16>>, (N * Seed) rem 90)} || N <- lists:seq(1, 300)],
        Packed = zlib:compress(term_to_binary(Rows)),
        Rows = binary_to_term(zlib:uncompress(Packed)),
        erlang:phash2(Rows)
    end,
    [spawn(fun() -> Self ! {Seed, Work(Seed)} end) || Seed <- lists:seq(1, 1000)],
    Sums = lists:sort([receive {S, H} -> {S, H} end || _ <- lists:seq(1, 1000)]),
    io:format("~p~n", [erlang:phash2(Sums)]),
    Ring = lists:foldl(fun(_, Next) -> spawn(fun() -> pass(Next) end) end, Self, lists:seq(1, 20000)),
    Ring ! {token, <<0:80000>>},
    receive {token, Binary} -> io:format("~p~n", [byte_size(Binary)]) end,
    Table = ets:new(table, [ordered_set, public, {write_concurrency, true}]),
    Fill = [spawn_monitor(fun() ->
        [ets:insert(Table, {{N, K}, binary:copy(<<K>>, N rem 500)}) || N <- lists:seq(1, 2000)]
    end) || K <- lists:seq(1, 8)],
    [receive {'DOWN', Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Fill],
    io:format("~p ~p~n", [ets:info(Table, size), erlang:phash2(ets:tab2list(Table))]),
    ets:delete(Table),
    Large = lists:foldl(fun(Bits, _) -> binary:copy(<<1>>, 1 bsl Bits) end, <<>>, lists:seq(16, 26)),
    io:format("~p ~p~n", [byte_size(Large), erlang:crc32(Large)]),
    [io:format("~s", [os:cmd("echo " ++ integer_to_list(N))]) || N <- lists:seq(1, 10)],
    Forms = [{attribute, 1, module, made}, {attribute, 1, export, [{f, 1}]},
        {function, 1, f, 1, [{clause, 1, [{integer, 1, N}], [], [{integer, 1, N * N}]} || N <- lists:seq(1, 500)]}],
    {ok, made, Code} = compile:forms(Forms),
    [begin code:purge(made), {module, made} = code:load_binary(made, "made", Code) end || _ <- lists:seq(1, 20)],
    io:format("~p~n", [apply(made, f, [499])]),
    erlang:garbage_collect(),
    io:format("~p~n", [length(lists:usort([rand_of(N) || N <- lists:seq(1, 50000)]))]).

pass(Next) -> receive Message -> Next ! Message end.

rand_of(N) -> (N * 2654435761) rem 997.
