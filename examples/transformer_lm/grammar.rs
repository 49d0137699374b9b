//! The text: sentences of a small grammar, in which a verb agrees with a subject that may stand far before it. What the
//! model writes can so be checked.

use crate::numbers::Numbers;

const ADJECTIVES: [&str; 8] = [
    "old", "small", "green", "quiet", "heavy", "proud", "lost", "warm",
];
const NUMBERS: [&str; 5] = ["two", "three", "four", "seven", "many"];
const PREPOSITIONS: [&str; 5] = ["under", "behind", "near", "above", "beside"];
const NOUNS: [&str; 10] = [
    "sailor", "river", "lantern", "garden", "bird", "stone", "tower", "boat", "friend", "cloud",
];
const VERBS: [&str; 8] = [
    "follow", "see", "love", "find", "hear", "draw", "lift", "keep",
];

/// A sentence, e.g. "three birds near the river see the old tower."
pub fn sentence(numbers: &mut Numbers) -> String {
    let mut words = Vec::new();
    let plural = phrase(&mut words, numbers);
    if numbers.below(3) == 0 {
        words.push((*numbers.pick(&PREPOSITIONS)).into());
        phrase(&mut words, numbers);
    }
    let verb = *numbers.pick(&VERBS);
    words.push(if plural {
        verb.into()
    } else {
        format!("{verb}s")
    });
    phrase(&mut words, numbers);
    words.join(" ") + "."
}

/// A noun with what stands before it; whether it is a plural.
fn phrase(words: &mut Vec<String>, numbers: &mut Numbers) -> bool {
    let plural = numbers.below(2) == 0;
    words.push(if plural {
        (*numbers.pick(&NUMBERS)).into()
    } else {
        "the".into()
    });
    if numbers.below(2) == 0 {
        words.push((*numbers.pick(&ADJECTIVES)).into());
    }
    let noun = *numbers.pick(&NOUNS);
    words.push(if plural {
        format!("{noun}s")
    } else {
        noun.into()
    });
    plural
}

/// Whether `text` is a sentence of the grammar.
pub fn accepts(text: &str) -> bool {
    let Some(text) = text.strip_suffix('.') else {
        return false;
    };
    let mut words = text.split(' ').peekable();
    let Some(plural) = read_phrase(&mut words) else {
        return false;
    };
    if words.next_if(|word| PREPOSITIONS.contains(word)).is_some()
        && read_phrase(&mut words).is_none()
    {
        return false;
    }
    let verb = words.next().unwrap_or_default();
    let agrees = if plural {
        VERBS.contains(&verb)
    } else {
        verb.strip_suffix('s')
            .is_some_and(|verb| VERBS.contains(&verb))
    };
    agrees && read_phrase(&mut words).is_some() && words.next().is_none()
}

fn read_phrase<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Option<bool> {
    let plural = match words.next()? {
        "the" => false,
        number if NUMBERS.contains(&number) => true,
        _ => return None,
    };
    words.next_if(|word| ADJECTIVES.contains(word));
    let noun = words.next()?;
    let noun = if plural {
        noun.strip_suffix('s')?
    } else {
        noun
    };
    NOUNS.contains(&noun).then_some(plural)
}
