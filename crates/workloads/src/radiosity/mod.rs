//! Parallel hierarchical radiosity (Hanrahan, Salzman, Aupperle: "A rapid hierarchical radiosity
//! algorithm", SIGGRAPH 1991), written from the algorithm.
//!
//! ```text
//!   scene ──> hierarchy (patches, elements, edges, vertices) <── refine ── form_factor
//!   (scenes/*)     │   links: who exchanges light with whom        │           │
//!                  └── solver: refine, gather, push, pull ─────────┘       visibility
//!                         │ closure: rows that sum to one
//!                         ├── physics: is the answer light?   statistics: what did it cost?
//!                         └── render: a picture
//! ```
//!
//! The program is also a load for allocators, after Cavin and Alonso, "Parallel management of
//! large dynamic shared memory space" (534 surfaces, 20 iterations, 5,478 meshes; 120 MB allocated
//! for 10 MB of useful data). Therefore **every patch, element, vertex, edge, link and task, and
//! every list, is an allocation of its own**; nothing is pooled. Sub-centres are not made anew for each
//! candidate: an element keeps its list. (Until that was so, 402 MB were allocated for 9.5 MB alive; it is 60 for 11.)
//!
//! Invariant: within a phase the threads read only what the previous phase wrote, and lists
//! filled by many threads are sorted by [`hierarchy::ElementKey`] before they are summed. So the
//! answer does not depend on the number of threads, not even in its last bit.

pub mod closure;
pub mod colour;
pub mod command;
pub mod form_factor;
pub mod geometry;
pub mod hierarchy;
pub mod physics;
pub mod progress;
pub mod refine;
pub mod render;
pub mod scene;
pub mod scene_file;
pub mod scenes;
pub mod shading;
pub mod solver;
pub mod statistics;
pub mod tone;
pub mod visibility;
