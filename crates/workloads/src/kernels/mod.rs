//! Five kernels in the master-slave design of embedded multiprocessors: small tasks, many small objects.
//!
//! ```text
//!   master: makes a task and its input ──► slave: temporaries, a result ──► master: uses and frees it
//!   farm    hands tasks out, collects results       picture   the generated input
//!   fast, gaussian, integral, matmul, quadtree      a kernel each
//! ```
//!
//! The four kernels of Koutras et al. 2016 (their traces are those of Anagnostopoulos et al., ACM TECS 13
//! (1s), 2013) written from the algorithms, and a fifth whose tasks are uneven. Each result is compared
//! with one computed plainly. Where a recorder listens, the farm marks the three parts of every task, and
//! the kernels tell of every load and store of an item, be it a byte or a word: an embedded core pays the
//! same for each. A simulator can hand the tasks to as many slaves as it likes.
//!
//! Invariant: a kernel's result does not depend on the number of slaves; every object of a task is freed by
//! the slave that works on it or by the master that collects it.

pub mod command;
mod farm;
mod fast;
mod gaussian;
mod integral;
mod matmul;
mod picture;
mod quadtree;

pub use farm::Farm;
pub use picture::Picture;

/// A kernel, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kernel {
    /// Corners by the accelerated test of 16 pixels around each (Rosten and Drummond 2006).
    Fast,
    /// Blur by a binomial filter of 5 x 5, rows then columns.
    Gaussian,
    /// Sums of all pixels above and to the left.
    Integral,
    /// Product of two matrices, block by block.
    Matmul,
    /// Quadtrees of the picture's even parts: tasks of uneven length.
    Quadtree,
}

impl Kernel {
    /// Every kernel.
    pub const ALL: [Kernel; 5] =
        [Kernel::Fast, Kernel::Gaussian, Kernel::Integral, Kernel::Matmul, Kernel::Quadtree];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Fast => "fast",
            Kernel::Gaussian => "gaussian",
            Kernel::Integral => "integral",
            Kernel::Matmul => "matmul",
            Kernel::Quadtree => "quadtree",
        }
    }

    /// Rows and columns of its tiles, unless another side is wanted.
    pub const fn side(self) -> usize {
        match self {
            Kernel::Matmul => matmul::SIDE,
            Kernel::Integral => integral::SIDE,
            Kernel::Fast | Kernel::Gaussian | Kernel::Quadtree => 8,
        }
    }

    /// Whether its tiles can have another side.
    pub const fn takes_side(self) -> bool {
        matches!(self, Kernel::Matmul | Kernel::Integral)
    }

    /// Runs it on `picture` in tiles of `side`: a number that stands for its result, and whether it is the plain one.
    pub fn run(self, farm: &Farm, picture: &Picture, side: usize) -> (u64, bool) {
        match self {
            Kernel::Fast => checked(fast::corners(farm, picture), &fast::plain(picture)),
            Kernel::Gaussian => checked(gaussian::blur(farm, picture), &gaussian::plain(picture)),
            Kernel::Integral => {
                checked(integral::sums(farm, picture, side), &integral::plain(picture))
            }
            Kernel::Matmul => {
                checked(matmul::square(farm, picture, side), &matmul::plain(picture, side))
            }
            Kernel::Quadtree => checked(quadtree::leaves(farm, picture), &quadtree::plain(picture)),
        }
    }
}

fn checked<T: Copy + PartialEq + Into<u64>>(found: Vec<T>, plain: &[T]) -> (u64, bool) {
    // FNV-1a, 64 bits.
    let mix = |hash: u64, value: &T| (hash ^ (*value).into()).wrapping_mul(0x100_0000_01b3);
    (found.iter().fold(0xcbf2_9ce4_8422_2325, mix), found == plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_finds_what_the_plain_one_finds_with_any_number_of_slaves() {
        let picture = Picture::generated(64, 48);
        for kernel in Kernel::ALL {
            let run = |slaves| kernel.run(&Farm::new(slaves), &picture, kernel.side());
            let found = [1, 2, 5].map(run);
            assert!(found[0].1, "{kernel:?} differs from the plain computation");
            assert_eq!(found, [found[0]; 3], "{kernel:?}");
        }
    }

    #[test]
    fn tiles_of_another_side_give_the_same_result() {
        let (picture, farm) = (Picture::generated(48, 48), Farm::new(2));
        for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.takes_side()) {
            let found = [4, 6, 8, 12].map(|side| kernel.run(&farm, &picture, side));
            assert_eq!(found, [(found[0].0, true); 4], "{kernel:?}");
        }
    }
}
