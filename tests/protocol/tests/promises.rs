//! Every state of every scenario is visited.

use mailroom_protocol::{Mutant, Protocol, SCENARIOS, Scenario};
use stateright::{Checker, HasDiscoveries, Model};

/// On one thread: the rest of the suite has the machine's other cores.
fn check(scenario: Scenario, mutant: Option<Mutant>) -> impl Checker<Protocol> {
    let builder = Protocol { scenario, mutant }.checker();
    builder.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join()
}

#[test]
fn the_promises_hold_in_every_state_of_every_scenario() {
    for scenario in SCENARIOS {
        let checker = check(scenario, None);
        let (states, depth) = (checker.unique_state_count(), checker.max_depth());
        println!("{}: {states} states, {depth} steps deep", scenario.name);
        checker.assert_properties();
    }
}

#[test]
fn every_mistake_in_the_protocol_breaks_a_promise() {
    let mut unnoticed = Vec::new();
    for mutant in Mutant::ALL {
        let broken = SCENARIOS.into_iter().find_map(|scenario| {
            let broken = check(scenario, Some(mutant)).discoveries().into_iter().next();
            broken.map(|(promise, path)| (scenario.name, promise, path.into_actions()))
        });
        let Some((scenario, promise, actions)) = broken else {
            unnoticed.push(mutant);
            continue;
        };
        println!("{mutant:?}: not \"{promise}\", where {scenario}: {actions:?}");
    }
    assert_eq!(unnoticed, [], "these mistakes break no promise");
}
