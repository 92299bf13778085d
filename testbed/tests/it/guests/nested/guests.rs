//! Linux guests under KVM on one shared host.

use transect_testbed::on_shared_host;

#[test]
fn a_guest_boots_works_and_leaves_kvm_events() {
    on_shared_host(|host| {
        let mixed = host.guest("mixed").vcpus(2).disk_mib(16).workload("mix:after_port=2720");
        let guest = mixed.boot().unwrap();
        let perf = host
            .run(
                "rm -f mix.done; perf stat -x, -a -e kvm:kvm_exit,kvm:kvm_entry \
                 sh -c 'echo counting; until [ -e mix.done ]; do sleep 0.1; done'",
            )
            .spawn()
            .unwrap();
        perf.wait_for("counting").within(240).unwrap();
        guest.order(2720).unwrap();
        guest.wait_for("mix done").within(240).unwrap();
        host.run("touch mix.done").within(240).unwrap().expect_success();
        let counted = perf.finish_within(240).unwrap();
        let counts: Vec<u64> = counted
            .expect_success()
            .stderr
            .lines()
            .filter_map(|line| line.split(',').next()?.parse().ok())
            .collect();
        // 200 pingpongs over two vCPUs, 20 sleeps and 30 disk writes cost at least one exit each.
        assert!(counts.len() == 2 && counts.iter().all(|&count| count > 250), "{}", counted.stderr);
        assert!(guest.marks().unwrap().contains("disk n=30 done=30"));
        guest.kill().unwrap();
    });
}

#[test]
fn files_go_there_and_back_with_their_modes() {
    on_shared_host(|host| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "1234").unwrap();
        host.put(folder.path(), "carried/here").unwrap();
        host.put("/bin/true", "carried/true").unwrap();
        host.run("carried/true && echo $X >>carried/here/a")
            .env("X", "it's")
            .within(240)
            .unwrap()
            .expect_success();
        let back = tempfile::tempdir().unwrap();
        host.get("carried/here", back.path().join("b")).unwrap();
        assert_eq!(std::fs::read_to_string(back.path().join("b/a")).unwrap(), "1234it's\n");
    });
}

#[test]
fn exit_codes_and_both_outputs_come_back() {
    on_shared_host(|host| {
        let out = host.run("echo out; echo err >&2; exit 7").within(240).unwrap();
        assert_eq!((out.code, out.stdout.as_str(), out.stderr.as_str()), (7, "out\n", "err\n"));
        assert!(out.ok().unwrap_err().to_string().contains("ended with 7"));
    });
}

#[test]
fn a_command_past_its_time_is_killed_with_its_children() {
    on_shared_host(|host| {
        let error = host.run("sleep 4321 & sleep 4321").within(1).unwrap_err();
        assert!(error.to_string().contains("did not end within 1 s"), "{error:#}");
        host.forget_failures();
        // The kill is an order like any other: the next job comes after it.
        let left = host.run("sleep 1; pgrep -fc '[s]leep 4321'").within(240).unwrap();
        assert_eq!(left.stdout.trim(), "0");
    });
}

#[test]
fn many_commands_at_once_keep_their_own_outputs() {
    on_shared_host(|host| {
        let jobs: Vec<_> = (0..30)
            .map(|i| {
                host.run(&format!("seq {i} 100000 | head -c 100000; exit {i}")).spawn().unwrap()
            })
            .collect();
        for (i, job) in jobs.into_iter().enumerate() {
            let out = job.finish_within(360).unwrap();
            assert_eq!(out.code, i32::try_from(i).unwrap());
            assert_eq!(out.stdout.len(), 100_000);
            assert_eq!(out.stdout.lines().next().unwrap(), i.to_string());
        }
    });
}
