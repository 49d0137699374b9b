//! Writes the seeds again: `cargo run --example seeds`, in this folder.

use std::fs;
use std::io::Write;
use std::path::Path;

use burn_dp_fuzz::FIXTURES;
use flate2::Compression;
use flate2::write::GzEncoder;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> std::io::Result<()> {
    for row in table().lines().filter(|line| line.starts_with("env\t")) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, id, masks, machine, order, ..] = columns[..] else {
            panic!("not eight columns: {row}")
        };
        for (number, mask) in quoted(masks).into_iter().enumerate() {
            write(
                "mask",
                &format!("row-{id}-{number}"),
                &mask_seed(&mask, order, machine),
            )?;
        }
    }
    for (name, mask, order, machine) in [
        ("longest-mask", "0,".repeat(1312), "?".to_owned(), &[2][..]),
        ("too-long-mask", "0".repeat(2625), "?".to_owned(), &[2]),
        ("too-long-order", "1,0".to_owned(), "x".repeat(1024), &[2]),
        (
            "built-machine",
            "GPU-0,1".to_owned(),
            "PCI_BUS_ID".to_owned(),
            &[100; 64],
        ),
    ] {
        write(
            "mask",
            name,
            &[mask.as_bytes(), b"\0", order.as_bytes(), b"\0", machine].concat(),
        )?;
    }
    for (name, machine) in [("P2", "P2"), ("HET2", "HET2"), ("M4", "M4")] {
        let text = fs::read(format!("{HERE}/../tests/data/inventories/{machine}.json"))?;
        write("inventory", name, &text)?;
    }
    for (name, text) in [
        ("empty", r#"{"devices": []}"#),
        (
            "driver",
            r#"{"devices": [], "source": "driver", "refused": true, "missing": null, "cuda_version": "13.0"}"#,
        ),
        (
            "driver-two",
            r#"{"source": "driver", "devices": [{"physical": 0, "uuid": "GPU-1"}, {"physical": 1, "uuid": "GPU-2"}]}"#,
        ),
        (
            "least",
            r#"{"devices": [{"physical": 4294967295, "uuid": "GPU-0", "mig": [{"uuid": "MIG-0"}]}]}"#,
        ),
    ] {
        write("inventory", name, text.as_bytes())?;
    }
    let (images, labels) = (idx(&[2, 4, 5], &[7; 40]), idx(&[2], &[3, 9]));
    write("idx", "plain", &pair(&images, &labels))?;
    write(
        "idx",
        "gzipped",
        &pair(&gzipped(&images), &gzipped(&labels)),
    )?;
    let (images, labels) = (idx(&[5000, 4, 4], &[0; 80_000]), idx(&[5000], &[0; 5000]));
    write(
        "idx",
        "above-the-limit",
        &pair(&gzipped(&images), &gzipped(&labels)),
    )?;
    let bomb = gzipped(&idx(&[9, 8, 8], &vec![0; 4 << 20]));
    write("idx", "bomb", &pair(&bomb, &gzipped(&idx(&[9], &[1; 9]))))?;
    write("digits", "bomb", &gzipped(&vec![b'0'; 3 << 20]))?;
    write(
        "idx",
        "huge",
        &pair(
            &idx(&[u32::MAX, 28, 28], &[0; 9]),
            &idx(&[u32::MAX], &[0; 9]),
        ),
    )?;
    let rows = format!(
        "{}\n{}\n",
        ["16"; 65].join(",").replace("16,16", "0,7"),
        ["0"; 65].join(",")
    );
    write(
        "digits",
        "gzipped",
        &gzipped(rows.replace(",16\n", ",9\n").as_bytes()),
    )?;
    write("digits", "plain", rows.replace(",16\n", ",9\n").as_bytes())
}

fn table() -> String {
    fs::read_to_string(format!("{HERE}/../tests/data/visibility-cases.tsv"))
        .expect("the table is there")
}

/// The strings in a column; a column without one means that the variable is unset.
fn quoted(column: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = column;
    while let Some(start) = rest.find('"') {
        let mut strings = serde_json::Deserializer::from_str(&rest[start..]).into_iter::<String>();
        found.push(strings.next().and_then(Result::ok).expect("a string"));
        rest = &rest[start + strings.byte_offset()..];
    }
    if found.is_empty() {
        found.push("?".to_owned());
    }
    found
}

fn mask_seed(mask: &str, order: &str, machine: &str) -> Vec<u8> {
    let order = if order == "any" { "?" } else { order };
    let by_words = match machine {
        "one GPU, 2 children a,b" => "MIG-two-children",
        "that GPU, gi1 ci2" => "MIG-instances",
        words if words.starts_with('[') => "MIG-beside-whole",
        name => name,
    };
    let fixture = FIXTURES
        .iter()
        .position(|name| *name == by_words)
        .expect("a machine of the list");
    [
        mask.as_bytes(),
        b"\0",
        order.as_bytes(),
        b"\0",
        &[fixture as u8],
    ]
    .concat()
}

fn idx(sizes: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, sizes.len() as u8];
    file.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    file.extend(bytes);
    file
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

fn pair(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u16).to_be_bytes(), first, second].concat()
}

fn write(target: &str, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let folder = Path::new(HERE).join("seeds").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}
