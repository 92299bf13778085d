//! The counting guest makes exactly the exits it was asked for: seen by two independent counters of the same kernel.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failed expectation is the report")]

use transect_testbed::counting::{Counted, Counts};
use transect_testbed::{KvmHost, on_shared_host};

/// SVM's exit codes (Linux `arch/x86/include/uapi/asm/svm.h`) and VMX's (`asm/vmx.h`).
fn exit_codes(vendor: &str) -> [(&'static str, u32); 3] {
    match vendor {
        "amd" => [("hypercall", 0x81), ("port", 0x7b), ("halt", 0x78)],
        _ => [("hypercall", 18), ("port", 30), ("halt", 12)],
    }
}

#[test]
fn exits_by_reason_are_exact() {
    on_shared_host(each_exit_is_counted);
}

fn each_exit_is_counted(host: &KvmHost) {
    let asked = Counts { hypercalls: 211, port_writes: 307, halts: 101 };
    let guest = asked.command(host).unwrap();

    let plain = host.run(&guest).within(240).unwrap();
    let counted = Counted::in_output(&plain.expect_success().stdout).unwrap();
    assert_eq!(counted.hypercalls, asked.hypercalls);

    let filters: String = exit_codes(&counted.vendor)
        .map(|(_, code)| format!("-e kvm:kvm_exit --filter 'exit_reason=={code}' "))
        .concat();
    let perf = host
        .run(&format!("perf stat -x, -a {filters} -e kvm:kvm_hypercall {guest}"))
        .within(240)
        .unwrap();
    let counts: Vec<u64> = perf
        .expect_success()
        .stderr
        .lines()
        .filter_map(|line| line.split(',').next()?.parse().ok())
        .collect();
    assert_eq!(counts, [211, 307, 101, 211], "{}", perf.stderr);

    let trace = format!(
        "trace-cmd record -q -e kvm:kvm_exit -o t.dat {guest} && trace-cmd report -R t.dat"
    );
    let report = host.run(&trace).within(360).unwrap();
    for ((what, code), times) in exit_codes(&counted.vendor).into_iter().zip([211, 307, 101]) {
        let reason = format!("exit_reason={code} ");
        let seen =
            report.expect_success().stdout.lines().filter(|line| line.contains(&reason)).count();
        assert_eq!(seen, times, "{what}");
    }
}
