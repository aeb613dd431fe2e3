//! The definition, in f64: the probability of each token.

use super::Sample;

pub(super) fn probabilities(sample: &Sample, logits: &[f32], seen: &[bool]) -> Vec<f64> {
    let penalty = f64::from(sample.repetition_penalty);
    let mut scores: Vec<f64> = logits.iter().map(|&logit| f64::from(logit)).collect();
    for (score, _) in scores.iter_mut().zip(seen).filter(|(_, seen)| **seen) {
        *score = if *score < 0.0 { *score * penalty } else { *score / penalty };
    }
    if sample.temperature == 0.0 {
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = scores.iter().position(|&score| score == most).unwrap();
        return (0..scores.len()).map(|token| f64::from(u8::from(token == first))).collect();
    }
    scores.iter_mut().for_each(|score| *score /= f64::from(sample.temperature));
    if sample.top_k > 0 && sample.top_k < scores.len() {
        let mut sorted = scores.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let least = sorted[sample.top_k - 1];
        keep(&mut scores, |score| score >= least);
    }
    let p = softmax(&scores);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut sum = 0.0;
    if sample.top_p < 1.0 {
        for &token in &order[..order.len() - 1] {
            sum += p[token];
            if sum <= 1.0 - f64::from(sample.top_p) {
                scores[token] = f64::NEG_INFINITY;
            }
        }
    }
    let p = softmax(&scores);
    let most = p.iter().copied().fold(0.0, f64::max);
    for (score, p) in scores.iter_mut().zip(&p) {
        if *p < f64::from(sample.min_p) * most {
            *score = f64::NEG_INFINITY;
        }
    }
    softmax(&scores)
}

fn keep(scores: &mut [f64], stays: impl Fn(f64) -> bool) {
    scores.iter_mut().filter(|score| !stays(**score)).for_each(|score| *score = f64::NEG_INFINITY);
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scores.iter().map(|score| (score - most).exp()).sum();
    scores.iter().map(|score| (score - most).exp() / sum).collect()
}
