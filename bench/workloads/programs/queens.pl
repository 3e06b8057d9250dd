% All eight queens, and a table of terms that grows.
:- initialization(main).

safe(_, _, []).
safe(Q, D, [P | Rest]) :- Q =\= P, abs(Q - P) =\= D, E is D + 1, safe(Q, E, Rest).

queens([], Done, Done).
queens(Left, Some, Done) :- select(Q, Left, Rest), safe(Q, 1, Some), queens(Rest, [Q | Some], Done).

:- dynamic seen/2.

main :-
    numlist(1, 8, Ns),
    findall(Qs, queens(Ns, [], Qs), All),
    length(All, Count),
    forall(between(1, 150000, I), (atom_concat(item_, I, A), assertz(seen(A, f(I, [I, A]))))),
    aggregate_all(count, (seen(_, f(I, _)), 0 is I mod 7), Sevenths),
    forall(between(1, 150000, I), (atom_concat(item_, I, A), retract(seen(A, _)))),
    format("~w ~w~n", [Count, Sevenths]),
    halt.
