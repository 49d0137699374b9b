//! The one order in which the coordinator issues copies between devices.
//!
//! A copy between two GPUs is a send on one and a receive on the other, and the connection of a pair is made at its first use
//! and blocks until both ends have come to it (as NCCL's communicators do). Devices work through what they are given in order,
//! so copies that are issued in one global order always find their other end; issued from several threads they need not.

/// One copy: replica `from` gives, replica `into` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    pub(crate) from: usize,
    pub(crate) into: usize,
}

/// A binary tree that ends at replica 0: `replicas - 1` copies in `ceil(log2(replicas))` rounds, those of a round between
/// different devices.
pub(crate) fn reduce_tree(replicas: usize) -> Vec<Transfer> {
    let mut transfers = Vec::with_capacity(replicas.saturating_sub(1));
    let mut stride = 1;
    while stride < replicas {
        let round = (0..replicas - stride).step_by(2 * stride);
        transfers.extend(round.map(|into| Transfer {
            from: into + stride,
            into,
        }));
        stride *= 2;
    }
    transfers
}

/// The same tree from replica 0 outwards.
pub(crate) fn broadcast_tree(replicas: usize) -> Vec<Transfer> {
    let turned = reduce_tree(replicas).into_iter().rev();
    turned
        .map(|Transfer { from, into }| Transfer {
            from: into,
            into: from,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Devices with a queue each. A copy stands in the queues of both its ends, and is done when it is at the head of both.
    /// Returns how many copies are left when nothing moves any more.
    fn stuck(issued: &[Transfer], devices: usize) -> usize {
        let mut queues: Vec<VecDeque<Transfer>> = vec![VecDeque::new(); devices];
        for transfer in issued {
            queues[transfer.from].push_back(*transfer);
            queues[transfer.into].push_back(*transfer);
        }
        drain(&mut queues)
    }

    fn drain(queues: &mut [VecDeque<Transfer>]) -> usize {
        loop {
            let ready = queues.iter().flat_map(|queue| queue.front()).copied().find(
                |&Transfer { from, into }| {
                    let here = Some(&Transfer { from, into });
                    queues[from].front() == here && queues[into].front() == here
                },
            );
            match ready {
                Some(Transfer { from, into }) => {
                    queues[from].pop_front();
                    queues[into].pop_front();
                }
                None => return queues.iter().map(VecDeque::len).sum::<usize>() / 2,
            }
        }
    }

    #[test]
    fn no_schedule_of_two_to_eight_devices_gets_stuck() {
        for devices in 2..=8 {
            for steps in 1..=3 {
                let step: Vec<Transfer> = broadcast_tree(devices)
                    .into_iter()
                    .chain(reduce_tree(devices))
                    .collect();
                let issued = step.repeat(steps);
                assert_eq!(stuck(&issued, devices), 0, "{devices} devices");
            }
        }
    }

    /// Each replica's thread passes its part on to its neighbour by itself, as in a ring, and is as fast as it likes: every
    /// device has its send in its queue before the receive that its neighbour's send needs.
    #[test]
    fn copies_issued_by_each_replicas_own_thread_get_stuck() {
        for devices in 3..=8 {
            let mut queues: Vec<VecDeque<Transfer>> = (0..devices)
                .map(|from| {
                    let send = Transfer {
                        from,
                        into: (from + 1) % devices,
                    };
                    let receive = Transfer {
                        from: (from + devices - 1) % devices,
                        into: from,
                    };
                    VecDeque::from([send, receive])
                })
                .collect();
            assert_eq!(drain(&mut queues), devices);
        }
    }

    #[test]
    fn every_replica_gives_once_and_only_to_one_that_has_not() {
        for replicas in 1..=17 {
            let mut given = vec![false; replicas];
            for Transfer { from, into } in reduce_tree(replicas) {
                assert!(!given[from] && !given[into]);
                given[from] = true;
            }
            assert_eq!(given.iter().filter(|given| !**given).count(), 1);
            assert!(!given[0], "the sum ends on the primary");

            let mut has = vec![false; replicas];
            has[0] = true;
            for Transfer { from, into } in broadcast_tree(replicas) {
                assert!(has[from] && !has[into]);
                has[into] = true;
            }
            assert!(has.iter().all(|has| *has));
        }
    }
}
