//! The data: lines of random words of one language. The words of the test lines are never seen in training, so what has to
//! be learned is how a language spells.

/// The languages, and words of each: plain letters only, so that no accent gives a language away.
const LANGUAGES: [(&str, &str); 5] = [
    ("English", include_str!("data/english.txt")),
    ("German", include_str!("data/german.txt")),
    ("Spanish", include_str!("data/spanish.txt")),
    ("Finnish", include_str!("data/finnish.txt")),
    ("Turkish", include_str!("data/turkish.txt")),
];

/// Number of classes.
pub const CLASSES: usize = LANGUAGES.len();

/// One of so many words is kept for the test lines.
const HELD_OUT: usize = 5;

/// A line and its language.
#[derive(Clone, Debug)]
pub struct Line {
    pub text: String,
    pub language: usize,
}

pub fn names() -> [&'static str; CLASSES] {
    LANGUAGES.map(|(name, _)| name)
}

/// `count` lines of 2 to 7 words, of all languages in turn.
pub fn lines(count: usize, test: bool, numbers: &mut Numbers) -> Vec<Line> {
    let words: Vec<Vec<&str>> = LANGUAGES
        .iter()
        .map(|(_, words)| {
            let kept = |index: usize| index.is_multiple_of(HELD_OUT) == test;
            let words = words.split_whitespace().enumerate();
            words
                .filter(|(index, _)| kept(*index))
                .map(|(_, word)| word)
                .collect()
        })
        .collect();
    (0..count)
        .map(|index| {
            let language = index % CLASSES;
            let words = &words[language];
            let picked: Vec<&str> = (0..2 + numbers.below(6))
                .map(|_| words[numbers.below(words.len())])
                .collect();
            Line {
                text: picked.join(" "),
                language,
            }
        })
        .collect()
}

/// A small random generator (SplitMix64), so that the lines of a seed are the same on every machine.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for index in (1..values.len()).rev() {
            values.swap(index, self.below(index + 1));
        }
    }
}
