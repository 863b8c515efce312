//! Which of the sandbox's processes are the guest's own and no program yet.

use std::collections::BTreeSet;

use crate::supervise::tree::Tree;

/// Supervisors and forks that wait, and what they are forked from.
#[derive(Default)]
pub(crate) struct Idle {
    /// A supervisor that waits for its program.
    pub supervisor: Option<i32>,
    pub zygotes: BTreeSet<i32>,
    /// Children of zygotes that have become programs.
    pub runs: BTreeSet<i32>,
}

impl Idle {
    /// The programs below `root`.
    pub fn programs(&self, root: i32, tree: &Tree) -> Vec<i32> {
        let below = |parent| tree.below(parent).into_iter();
        let is_zygote = |pid: &i32| self.zygotes.contains(pid);
        let waits = |zygote: &i32| {
            let forks = tree.children(*zygote).iter().copied();
            forks.filter(|fork| !self.runs.contains(fork))
        };
        let waiting: BTreeSet<i32> = self.zygotes.iter().flat_map(waits).collect();
        let supervises = |pid: i32| tree.children(pid).iter().any(is_zygote);
        below(root)
            .filter(|pid| Some(*pid) != self.supervisor && !is_zygote(pid))
            .filter(|pid| !waiting.contains(pid) && !supervises(*pid))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_no_program() {
        let idle = Idle {
            supervisor: Some(2),
            zygotes: [4].into(),
            runs: [6].into(),
        };
        let tree = Tree::of([
            (1, vec![2, 3, 8]),
            // 3 supervises the zygote 4; 9 was left to it by a run.
            (3, vec![4, 9]),
            (4, vec![5, 6]),
            (6, vec![7]),
            (8, vec![10]),
        ]);
        let mut programs = idle.programs(1, &tree);
        programs.sort_unstable();
        assert_eq!(programs, [6, 7, 8, 9, 10]);
    }
}
