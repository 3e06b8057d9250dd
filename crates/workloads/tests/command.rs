//! `freehold-radiosity` as its users meet it: exit codes, JSON, pictures, errors.

use std::path::Path;
use std::process::{Command, Output};

const SCENE: &str = r#"
name = "a lamp over a floor"
[camera]
eye = [0.5, -1.0, 0.5]
look_at = [0.5, 0.5, 0.3]
up = [0, 0, 1]
[material.paint]
reflectance = [0.7, 0.6, 0.5]
[material.lamp]
emission = [10, 10, 10]
[[polygon]]
material = "paint"
vertices = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
[[polygon]]
material = "paint"
vertices = [[0, 1, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1]]
[[polygon]]
material = "lamp"
vertices = [[0.4, 0.6, 0.9], [0.6, 0.6, 0.9], [0.6, 0.4, 0.9], [0.4, 0.4, 0.9]]
"#;

fn radiosity(folder: &Path, scene: &str, more: &[&str]) -> Output {
    std::fs::write(folder.join("scene.toml"), scene).expect("a writable folder");
    Command::new(env!("CARGO_BIN_EXE_freehold-radiosity"))
        .current_dir(folder)
        .args(["--scene", "scene.toml", "--picture", "out.png", "--height", "16"])
        .args(["--threads", "2"])
        .args(if more.contains(&"--least-area") { &[][..] } else { &["--least-area", "1e-2"] })
        .args(more)
        .output()
        .expect("the program starts")
}

/// What lies in the folder beside the scene.
fn left(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"));
    let mut names: Vec<_> = names.filter(|name| name != "scene.toml").collect();
    names.sort();
    names
}

#[test]
fn a_solution_gives_statistics_and_a_picture() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = radiosity(folder.path(), SCENE, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((json["polygons"].as_u64(), json["threads"].as_u64()), (Some(3), Some(2)));
    assert!(json["meshes"].as_u64() > Some(3) && json["seconds"]["picture"].as_f64() > Some(0.0));
    assert_eq!(left(folder.path()), ["out.png"]);
    let picture = std::fs::read(folder.path().join("out.png")).expect("a picture");
    assert!(picture.starts_with(b"\x89PNG") && picture.ends_with(b"IEND\xaeB`\x82"));
}

#[test]
fn what_cannot_be_solved_leaves_a_message_and_no_picture() {
    let dark = SCENE.replace("emission = [10, 10, 10]", "");
    let floor = |corner: &str| SCENE.replace("[1, 1, 0], [0, 1, 0]]", corner);
    let (line, two) = (floor("[2, 0, 0], [3, 0, 0]]"), floor("]"));
    let (bent, nan) = (floor("[1, 1, 0.4], [0, 1, 0]]"), floor("[1, nan, 0], [0, 1, 0]]"));
    // Fine enough to fill a mebibyte after some iterations.
    let full = ["--memory-limit", "1", "--epsilon", "1e-6", "--least-area", "1e-6"];
    let cases: [(&str, &[&str], &str); 8] = [
        (&dark, &[], "no polygon emits light"),
        (&line, &[], "polygon 1 has no area"),
        (&two, &[], "polygon 1 has 2 vertices"),
        (&bent, &[], "polygon 1 is not planar"),
        (&nan, &[], "polygon 1, vertex 3: a coordinate is not a finite number"),
        (SCENE, &["--memory-limit", "0"], "memory limit of 0 bytes"),
        (SCENE, &full, "memory limit of 1048576 bytes in iteration"),
        (SCENE, &["--epsilon", "2"], "above 0, at most 1"),
    ];
    for (scene, more, words) in cases {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = radiosity(folder.path(), scene, more);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(words) && !message.contains("`cornell`"), "{message}");
        assert!(left(folder.path()).is_empty());
    }
}
