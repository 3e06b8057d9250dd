//! OBJ files: what is read of them, and that mistakes are told with their lines.

use super::*;

const LAMP: &str = "newmtl paint\nKd 0.7 0.6 0.5\n\nnewmtl lamp\nKd 0 0 0\nKe 10 9 8\n";
const SCENE: &str = "\
# a lamp over a floor
mtllib colours.mtl
v 0 0 0
v 1 0 0
v 1 0 -1
v 0 0 -1
o floor
usemtl paint
f 1 2 3 4
v 0 1 0
v 1 1 0
v 1 1 -1
o lamp
usemtl lamp
f 7 6 5
";

fn read(text: &str, materials: &str) -> Result<Scene, SceneFileError> {
    parse(text, "test.obj", &|file| match file.to_str() {
        Some("colours.mtl") => Ok(materials.to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    })
}

#[track_caller]
fn refused(text: &str, materials: &str, words: &[&str]) {
    let error = read(text, materials).expect_err("a bad file").to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
}

#[test]
fn polygons_materials_and_surfaces_are_read() {
    let scene = read(SCENE, LAMP).expect("a proper file");
    assert_eq!((scene.polygons.len(), scene.quads().len(), scene.closed), (2, 1 + 3, false));
    let [floor, lamp] = &scene.polygons[..] else { panic!("two") };
    let up = Vec3::new(0.0, 1.0, 0.0);
    assert_eq!(
        (vector_area(&floor.vertices).unit(), vector_area(&lamp.vertices).unit()),
        (up, up * -1.0)
    );
    assert_eq!(scene.materials[floor.material].reflectance, Rgb([0.7, 0.6, 0.5]));
    assert_eq!(scene.materials[lamp.material].emission, Rgb([10.0, 9.0, 8.0]));
    assert!(floor.surface.starts_with("floor facing") && lamp.surface.starts_with("lamp facing"));
}

#[test]
fn all_vertices_are_in_the_picture() {
    let scene = read(SCENE, LAMP).expect("a proper file");
    let Camera { eye, look_at, opening_deg, .. } = scene.camera;
    let ahead = (look_at - eye).unit();
    for vertex in scene.polygons.iter().flat_map(|polygon| &polygon.vertices) {
        let cosine = (*vertex - eye).unit().dot(ahead);
        assert!(cosine > (opening_deg / 2.0).to_radians().cos() - 1e-12, "{vertex:?}");
    }
}

#[test]
fn mistakes_are_told_with_their_lines() {
    refused(
        &SCENE.replace("v 1 1 0\n", "v 1 one 0\n"),
        LAMP,
        &["test.obj, line 11,", "position parse error"],
    );
    refused(
        &SCENE.replace("f 7 6 5", "f 7 6 x"),
        LAMP,
        &["test.obj, line 15,", "face parse error"],
    );
    refused(SCENE.trim_end().replace("f 7 6 5", "f 7 6 x").as_str(), LAMP, &["test.obj, line 15,"]);
    refused(
        &SCENE.replace("f 1 2 3 4", "f 1 2 3 90"),
        LAMP,
        &["test.obj, line 13,", "a face of the object that ends here"],
    );
    refused(SCENE, &LAMP.replace("9 8", "9"), &["colours.mtl, line 6,", "correct the line"]);
    refused(
        &SCENE.replace("colours", "none"),
        LAMP,
        &["test.obj, line 2: the material file none.mtl cannot be read"],
    );
}

#[test]
fn mistakes_of_materials_are_told_with_their_file_and_line() {
    // `tobj` passes over colours that stand before the first material.
    let words = ["colours.mtl, line 1: `Kd` belongs to no material", "`newmtl NAME`"];
    refused(SCENE, &LAMP.replace("newmtl paint\n", ""), &words);
    refused(SCENE, &format!("# lamps\nKe 1 1 1\n{LAMP}"), &["colours.mtl, line 2: `Ke` belongs"]);
    refused(SCENE, &format!("Kd 1 x 1\n{LAMP}"), &["colours.mtl, line 1,", "correct the line"]);
    refused(SCENE, &LAMP.replace("newmtl lamp", "newmtl"), &["colours.mtl, line 4,"]);
    let words = ["test.obj cannot be solved: colours.mtl, line 2: material `paint`", "reflectance"];
    refused(SCENE, &LAMP.replace("0.7", "1.7"), &words);
    let words = ["colours.mtl, line 6: material `lamp`", "emission"];
    refused(SCENE, &LAMP.replace("9 8", "9 -8"), &words);
    // Two of one name: the line is that of the one that is wrong.
    let twice = format!("{LAMP}newmtl paint\nKd 2 0 0\n");
    refused(SCENE, &twice, &["colours.mtl, line 8: material `paint`"]);
}

/// A second material file: lines are its own.
#[test]
fn the_file_of_a_material_is_named() {
    let more = SCENE.replace("mtllib colours.mtl", "mtllib colours.mtl\nmtllib more.mtl");
    let error = parse(&more, "test.obj", &|file| match file.to_str() {
        Some("colours.mtl") => Ok(LAMP.to_owned()),
        _ => Ok("\nnewmtl gold\nKe 1 1 1\nKd 1 0 0\n".to_owned()),
    });
    let error = error.expect_err("gold reflects all").to_string();
    assert!(error.contains("more.mtl, line 4: material `gold`"), "{error}");
}

#[test]
fn mistakes_of_the_whole_scene_have_a_line_to_begin_with() {
    refused(SCENE, &LAMP.replace("Ke", "Ka"), &["test.obj cannot be solved, line 2: no polygon"]);
    refused("# nothing\n\n", LAMP, &["test.obj cannot be solved, line 2:"]);
    refused(&SCENE.replace("v 1 1 -1", "v inf 1 -1"), LAMP, &["line 12: the camera cannot see"]);
}

/// Normals, colours, textures, lines and curves are there in many files, and wrong in some.
#[test]
fn what_is_not_used_may_be_wrong() {
    let more = "v 0 0 5 1 0.5\nvn 1\nvt x\nl 1 2 3\ncstype bezier\n\nf 1/9/9 2//-7 3/0 4\n";
    let scene = read(&SCENE.replace("f 1 2 3 4\n", more), &format!("{LAMP}Ks 1\nNs\nmap_Kd\n"));
    assert_eq!(scene.expect("a proper file").polygons.len(), 2);
}

#[test]
fn faces_of_no_vertex_are_errors_not_panics() {
    for face in [
        "f 0 1 2",
        "f -99 1 2",
        "f 9223372036854775807 1 2",
        "f -9223372036854775808 1 2",
        "f / / /",
        "f",
    ] {
        assert!(read(&SCENE.replace("f 1 2 3 4", face), LAMP).is_err(), "{face}");
    }
}

#[test]
fn what_cannot_be_solved_is_told_with_its_face() {
    refused(
        &SCENE.replace("v 1 0 -1", "v 1 0.3 -1"),
        LAMP,
        &["line 9: polygon 1", "is not planar"],
    );
    refused(
        &SCENE.replace("usemtl paint", "usemtl gold"),
        LAMP,
        &["line 9: polygon 1", "has no material"],
    );
    refused(&SCENE.replace("f 7 6 5", "f 7 6 6"), LAMP, &["line 15: polygon 2", "has no area"]);
    refused(SCENE, &LAMP.replace("Ke", "Ka"), &["no polygon emits light", "`Ke 10 10 10`"]);
    refused("# nothing\n", LAMP, &["no polygon"]);
}
