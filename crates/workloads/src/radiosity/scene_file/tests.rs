//! Every way in which a scene file can be wrong, and that the message names it.

use super::*;

const HEAD: &str = r#"
name = "test"
[camera]
eye = [0.5, 0.5, 3.0]
look_at = [0.5, 0.5, 0.0]
[material.paint]
reflectance = [0.7, 0.6, 0.5]
[material.lamp]
emission = [1.0, 1.0, 1.0]
"#;
const LAMP: &str = r#"
[[polygon]]
material = "lamp"
vertices = [[0, 1, 1], [1, 1, 1], [1, 0, 1], [0, 0, 1]]
"#;

fn with(vertices: &str) -> Result<Scene, SceneFileError> {
    let polygon =
        format!("[[polygon]]\nmaterial = \"paint\"\nsurface = \"floor\"\nvertices = {vertices}");
    parse(&format!("{HEAD}{LAMP}{polygon}"), "test.toml")
}

#[track_caller]
fn refused(vertices: &str, words: &str) {
    let error = with(vertices).expect_err(words).to_string();
    assert!(error.contains(words) && error.contains("2 (`floor`)"), "{error}");
    // The polygon begins in line 14; its vertices stand in line 17.
    let line = if error.contains("vertex") { 17 } else { 14 };
    let told = format!("the scene test.toml cannot be solved, line {line}: polygon 2");
    assert!(error.contains(&told) || error.contains("vertices;"), "{error}");
}

/// A mistake is told with the line it stands in, however the text is laid out.
#[test]
fn errors_have_the_line_of_the_culprit() {
    let text = format!(
        "{HEAD}{LAMP}[[polygon]]
material = \"paint\"
vertices = [
  [0, 0, 0],
  [1, 0, 0],
  [1, 1, 0.4],  # not planar
  [0, 1, 0],
]
"
    );
    let line_of = |text: &str, words: &str| {
        let at = text.find(words).expect("it stands there");
        text[..at].matches('\n').count() + 1
    };
    let told = |text: &str, line: usize, words: &str| {
        let error = error_of(text);
        assert!(error.contains(words) && error.contains(&format!(", line {line}: ")), "{error}");
    };
    told(&text, line_of(&text, "[0, 0, 0]"), "is not planar");
    told(&text.replace("0.4", "inf"), line_of(&text, "[1, 1, 0.4]"), "not a finite number");
    told(
        &text.replace("= \"paint\"", "= \"gold\""),
        line_of(&text, "= \"paint\""),
        "material `gold`",
    );
    told(&text.replace("0.7", "1.7"), line_of(&text, "[material.paint]"), "reflectance");
    told(&text.replace("[0.5, 0.5, 0.0]", "[0.5, 0.5, 3.0]"), line_of(&text, "[camera]"), "camera");
    assert!(error_of(&text.replace("[0, 0, 0],", "[0, 0],")).contains("line 17, column 3"));
}

#[test]
fn polygons_of_three_four_and_five_corners_are_accepted() {
    for (vertices, patches) in [
        ("[[0, 0, 0], [1, 0, 0], [0, 1, 0]]", 3),
        ("[[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]", 1),
        ("[[0, 0, 0], [1, 0, 0], [1.5, 0.5, 0], [1, 1, 0], [0, 1, 0]]", 5),
    ] {
        let scene = with(vertices).expect("a proper polygon");
        assert_eq!(scene.quads().len(), 1 + patches);
        let sum: f64 = scene.quads()[1..].iter().map(|(_, quad)| quad.area()).sum();
        let whole = crate::radiosity::geometry::vector_area(&scene.polygons[1].vertices).length();
        assert!((sum - whole).abs() < 1e-12);
    }
}

#[test]
fn bad_polygons_are_named() {
    refused("[[0, 0, 0], [1, 0, 0]]", "at least 3");
    refused("[[0, 0, 0], [1, 0, 0], [1, nan, 0], [0, 1, 0]]", "vertex 3: a coordinate is not");
    refused("[[0, 0, 0], [1, 0, 0], [inf, 1, 0], [0, 1, 0]]", "not a finite number");
    refused("[[0, 0, 0], [1e200, 0, 0], [1e200, 1e200, 0], [0, 1e200, 0]]", "has no area");
    refused("[[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]", "has no area");
    refused("[[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]]", "has no area");
    refused("[[0, 0, 0], [1, 0, 0], [1, 1, 0.4], [0, 1, 0]]", "is not planar");
    refused("[[0, 0, 0], [1, 0, 0], [0.2, 0.2, 0], [0, 1, 0]]", "is not convex at vertex 3");
    refused("[[0, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0]]", "is not convex");
    refused("[[0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]", "vertex 3 lies where");
    refused("[[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]]", "vertex 1 lies where");
}

#[track_caller]
fn error_of(text: &str) -> String {
    parse(text, "test.toml").expect_err("a bad file").to_string()
}

#[test]
fn bad_scenes_are_named() {
    assert!(error_of(HEAD).contains("has no polygon"));
    let dark = LAMP.replace("lamp", "paint");
    assert!(error_of(&format!("{HEAD}{dark}")).contains("no polygon emits light"));
    let unknown = LAMP.replace("lamp", "gold");
    let error = error_of(&format!("{HEAD}{unknown}"));
    assert!(error.contains("material `gold`, which the scene does not define"), "{error}");
    let mirror = format!("{HEAD}{LAMP}").replace("0.7", "1.0");
    assert!(error_of(&mirror).contains("material `paint`: the reflectance"));
    let hole = format!("{HEAD}{LAMP}").replace("[1.0, 1.0, 1.0]", "[1.0, -1.0, 1.0]");
    assert!(error_of(&hole).contains("material `lamp`: the emission"));
    let blind =
        format!("{HEAD}{LAMP}").replace("look_at = [0.5, 0.5, 0.0]", "look_at = [0.5, 0.5, 3.0]");
    assert!(error_of(&blind).contains("camera cannot see"));
}

#[test]
fn bad_files_are_named() {
    assert!(error_of("name = ").contains("test.toml is not a scene file"));
    assert!(error_of(&format!("{HEAD}{LAMP}colour = 3")).contains("unknown field `colour`"));
    let missing = read(Path::new("no/such/scene.toml")).expect_err("no such file").to_string();
    assert!(missing.contains("cannot read the scene file no/such/scene.toml"), "{missing}");
}
