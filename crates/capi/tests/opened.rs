//! Libraries that are opened while the program runs find our malloc, also with `RTLD_DEEPBIND`; php above all.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::{assert_passed, compile_with, folder, library};

/// Options under which every program here runs.
const WAYS: [&[(&str, &str)]; 2] = [&[], &[("FREEHOLD_SECURE", "1")]];

fn libraries_opened_deep_share_our_malloc() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let plugin = compile_with(&programs.join("plugin.c"), &["-shared".as_ref(), "-fPIC".as_ref()]);
    let folder = folder().join(format!("plugins-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for tests");
    fs::rename(&plugin, folder.join("libplugin-of-ours.so")).expect("a file of ours");
    // The program's RUNPATH, and nobody else's.
    let path = format!("-Wl,--enable-new-dtags,-rpath,{}", folder.display());
    let program = compile_with(&programs.join("opens.c"), &[path.as_ref(), "-ldl".as_ref()]);
    for options in WAYS {
        let output = support::run(&program, &["libplugin-of-ours.so"], options);
        assert_passed("opens.c", &output);
    }
}

/// Python's modules in C++, for one: the runtime's own operator new is not behind ours in the order of loading, and the
/// process was ended instead of an exception thrown.
fn a_runtime_loaded_late_throws() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let plugin = programs.join("late_plugin.cpp");
    let plugin = compile_with(&plugin, &["-shared".as_ref(), "-fPIC".as_ref()]);
    let program = compile_with(&programs.join("opens_late.c"), &["-ldl".as_ref()]);
    for options in WAYS {
        let plugin = plugin.to_str().expect("a path of ours");
        assert_passed("opens_late.c", &support::run(&program, &[plugin], options));
    }
}

/// What php says, on our malloc or on the system's.
fn php(script: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("php");
    command.arg("-r").arg(script).envs(variables.iter().copied());
    match command.output() {
        Ok(output) => output,
        Err(_) => {
            freehold_testkit::skip("there is no php here (apt install php-cli)");
            panic!("what needs php is a trial, which ends in `skip`")
        }
    }
}

/// It opens its extensions with `RTLD_DEEPBIND`, and died at the start.
fn php_says_the_same_as_on_the_c_librarys_malloc() {
    const SCRIPTS: [&str; 4] = [
        "$all = get_loaded_extensions(); sort($all); echo count($all), ' ', implode(',', $all), PHP_EOL;",
        "for ($i = 0; $i < 200000; $i++) { $rows[$i % 5000] = ['n' => $i, 's' => str_repeat('x', $i % 300)]; }
         echo count($rows), ' ', md5(json_encode($rows)), ' ', crc32(serialize($rows)), PHP_EOL;",
        "for ($i = 0; $i < 3000; $i++) {
            $date = new DateTime('2024-02-29 +' . $i . ' days', new DateTimeZone('Europe/Berlin'));
            $sum = ($sum ?? 0) + strlen(preg_replace('/[0-9]+/', '<$0>', $date->format(DATE_ATOM)));
            $heap = $heap ?? new SplMinHeap; $heap->insert(hash('sha256', (string)$i));
         } echo $sum, ' ', $heap->extract(), ' ', iconv('UTF-8', 'ISO-8859-1', 'abc'), PHP_EOL;",
        "echo strlen(file_get_contents('php://memory')), ' ', base64_encode(gzdeflate(str_repeat('freehold', 1000))), PHP_EOL;",
    ];
    let preload = library().to_str().expect("a path of ours");
    for script in SCRIPTS {
        let plain = php(script, &[]);
        assert_passed(script, &plain);
        for options in WAYS {
            // With and without php's own pages between it and malloc.
            for own in ["0", "1"] {
                let all = [options, &[("LD_PRELOAD", preload), ("USE_ZEND_ALLOC", own)]].concat();
                let ours = php(script, &all);
                assert_passed(script, &ours);
                assert_eq!(ours.stdout, plain.stdout, "{script}");
                assert!(ours.stderr.is_empty(), "{}", String::from_utf8_lossy(&ours.stderr));
            }
        }
    }
}

freehold_testkit::trials! {
    libraries_opened_deep_share_our_malloc,
    a_runtime_loaded_late_throws,
    php_says_the_same_as_on_the_c_librarys_malloc,
}
