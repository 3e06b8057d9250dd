//! Two drawings: the nodes with their memories, and the blocks of one memory.

use super::super::config::Plan;
use crate::human;
use crate::report::html::scrolling;
use crate::report::lines::open_svg;
use freehold_sim::numa::Memory;
use std::f64::consts::TAU;
use std::fmt::Write;

const SIZE: f64 = 560.0;
const BOX: (f64, f64) = (156.0, 92.0);

/// The nodes on their ring, the shared memory in the middle, what is filled beforehand.
pub fn topology(plan: &Plan) -> String {
    let nodes = plan.machine.nodes();
    let title = "The simulated machine";
    let description = format!(
        "{nodes} nodes of {} processors on a ring, each with memory of its own, around one shared memory.",
        plan.machine.processors_per_node()
    );
    let middle = SIZE / 2.0;
    let radius = if nodes > 1 { middle - BOX.0 / 2.0 - 14.0 } else { 0.0 };
    // Four nodes lie in the corners, as the chapter draws them.
    let turn = |i: usize| (i as f64 - 0.5) / nodes as f64 * TAU - TAU / 4.0;
    let reach = |sign: f64| (0..nodes).map(|i| sign * turn(i).sin()).fold(0.0, f64::max) * radius;
    let (above, below) = (reach(-1.0) + BOX.1 / 2.0 + 4.0, reach(1.0) + BOX.1 / 2.0 + 30.0);
    let centre = (middle, above);
    let place = |i: usize| (centre.0 + radius * turn(i).cos(), centre.1 + radius * turn(i).sin());
    let mut svg = open_svg(SIZE, above + below, "topology", title, &description);
    for i in 0..nodes {
        let ((x, y), (to_x, to_y)) = (place(i), place((i + 1) % nodes));
        if nodes > 1 {
            let _ = write!(svg, "<path class=\"way\" d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\"/>");
        }
        let (to_x, to_y) = centre;
        let _ = write!(svg, "<path class=\"grid\" d=\"M{x:.1} {y:.1}L{to_x:.1} {to_y:.1}\"/>");
    }
    for (i, memory) in plan.machine.memories().enumerate() {
        let at = if memory == Memory::Shared { centre } else { place(i) };
        draw_memory(&mut svg, plan, memory, at);
    }
    let costs = &plan.costs;
    let remote: Vec<String> = costs.remote_ns.iter().map(u64::to_string).collect();
    let _ = write!(
        svg,
        "<text class=\"tick\" text-anchor=\"middle\" x=\"{middle}\" y=\"{:.1}\">a word of memory costs \
         {} ns at home, {} ns shared, {} ns remote by hops</text>",
        above + below - 6.0,
        costs.local_ns,
        costs.shared_ns,
        remote.join(", ")
    );
    svg.push_str("</svg>");
    scrolling(title, &format!("<div class=\"narrow\">{svg}</div>"))
}

fn draw_memory(svg: &mut String, plan: &Plan, memory: Memory, (x, y): (f64, f64)) {
    let (left, top) = (x - BOX.0 / 2.0, y - BOX.1 / 2.0);
    let capacity = plan.machine.capacity(memory);
    let percent = plan.background_of(memory);
    let (name, who) = match memory {
        Memory::Of(node) => {
            let processors = plan.machine.processors_per_node();
            (node.to_string(), format!("{processors} processors"))
        }
        Memory::Shared => ("shared".to_owned(), "for all".to_owned()),
    };
    let room = BOX.0 - 20.0;
    let _ = write!(
        svg,
        "<rect class=\"room\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{}\" height=\"{}\" rx=\"6\"/>\
         <text class=\"row\" x=\"{:.1}\" y=\"{:.1}\">{name}</text>\
         <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{who}</text>\
         <rect class=\"printed\" x=\"{:.1}\" y=\"{:.1}\" width=\"{room}\" height=\"18\"/>\
         <rect class=\"filled\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"18\"/>\
         <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}, {percent} % taken</text>",
        BOX.0,
        BOX.1,
        left + 10.0,
        top + 22.0,
        left + BOX.0 - 10.0,
        top + 22.0,
        left + 10.0,
        top + 36.0,
        left + 10.0,
        top + 36.0,
        room * f64::from(percent) / 100.0,
        left + 10.0,
        top + 76.0,
        human::bytes(capacity).replace(".0 ", " "),
    );
}

/// One used and one free block, to the byte.
pub fn layout() -> String {
    const WIDTH: f64 = 960.0;
    const LEFT: f64 = 70.0;
    let mut svg = open_svg(
        WIDTH,
        236.0,
        "blocks",
        "The layout of blocks",
        "A used block is a header of 8 bytes and a payload. A free block has two flags in its header, \
         four links of 4 bytes, and its size again in its last 8 bytes.",
    );
    let mut cell = |x: f64, y: f64, width: f64, class: &str, text: &str, below: &str| {
        let middle = LEFT + x + width / 2.0;
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{y}\" width=\"{width}\" height=\"38\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{:.1}\">{text}</text>\
             <text class=\"name\" text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{:.1}\">{below}</text>",
            LEFT + x,
            y + 24.0,
            y + 54.0
        );
    };
    let used = [
        (0.0, 130.0, "told", "size, flags", "8 B"),
        (
            130.0,
            740.0,
            "room",
            "payload: what was asked for, rounded up to the next 16 B less 8",
            "",
        ),
    ];
    let free = [
        (0.0, 130.0, "told", "size, FREE", "8 B"),
        (130.0, 85.0, "printed", "link", "4 B"),
        (215.0, 85.0, "printed", "link", "4 B"),
        (300.0, 85.0, "printed", "link", "4 B"),
        (385.0, 85.0, "printed", "link", "4 B"),
        (470.0, 270.0, "room", "untouched", ""),
        (740.0, 130.0, "told", "size again", "8 B"),
    ];
    for (x, width, class, text, below) in used {
        cell(x, 14.0, width, class, text, below);
    }
    for (x, width, class, text, below) in free {
        cell(x, 96.0, width, class, text, below);
    }
    let _ = write!(
        svg,
        "<text class=\"row\" text-anchor=\"end\" x=\"{0}\" y=\"38\">used</text>\
         <text class=\"row\" text-anchor=\"end\" x=\"{0}\" y=\"120\">free</text>\
         <text class=\"tick\" x=\"{LEFT}\" y=\"186\">flags: this block is free; the block before it is \
         free, so that its last 8 B are its size and not payload</text>\
         <text class=\"tick\" x=\"{LEFT}\" y=\"208\">shortest block 32 B; a block is split when what is \
         left is at least that; lists, trees and tries live in the four links</text></svg>",
        LEFT - 10.0
    );
    scrolling("The layout of blocks", &svg)
}
