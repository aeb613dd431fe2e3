//! Fixes input shapes, which helps engines to plan and makes the cache key precise.

use std::collections::HashMap;

use crate::onnx::{Dim, Model, ValueInfo, ValueType};
use crate::{Error, Result};

/// Fixes the shapes of inputs, and the lengths of their named axes everywhere. Drops the declared
/// shapes of intermediate values, because they may no longer hold.
///
/// # Errors
/// `InvalidArgument` for an unknown input, a wrong number of axes, a length that contradicts the
/// model, or two lengths for one name.
pub fn fix_shapes(model: &mut Model, shapes: &[(String, Vec<usize>)]) -> Result<()> {
    let mut lengths: HashMap<String, usize> = HashMap::new();
    for (name, shape) in shapes {
        let input = model.graph.inputs.iter_mut().find(|input| input.name == *name);
        let input = input.ok_or_else(|| Error::invalid(format!("no input is called `{name}`")))?;
        let ValueType::Tensor { shape: axes, .. } = &mut input.r#type else {
            return Err(Error::invalid(format!("input `{name}` is not a tensor")));
        };
        if let Some(axes) = axes {
            if axes.len() != shape.len() {
                return Err(Error::invalid(format!(
                    "input `{name}` has {} axes; {shape:?} has {}",
                    axes.len(),
                    shape.len()
                )));
            }
            for (axis, &len) in axes.iter().zip(shape) {
                match axis {
                    Dim::Known(known) if *known != len as i64 => {
                        return Err(Error::invalid(format!("input `{name}`: {shape:?} where the model has {known}")));
                    }
                    Dim::Named(axis) if lengths.insert(axis.clone(), len).is_some_and(|other| other != len) => {
                        return Err(Error::invalid(format!(
                            "input `{name}`: `{axis}` is {len} here and not elsewhere"
                        )));
                    }
                    _ => {}
                }
            }
        }
        *axes = Some(shape.iter().map(|&len| Dim::Known(len as i64)).collect());
    }
    let named = |value: &mut ValueInfo| {
        let ValueType::Tensor { shape: Some(axes), .. } = &mut value.r#type else { return };
        for axis in axes {
            if let Dim::Named(name) = axis
                && let Some(&len) = lengths.get(name)
            {
                *axis = Dim::Known(len as i64);
            }
        }
    };
    model.graph.inputs.iter_mut().for_each(named);
    model.graph.outputs.iter_mut().for_each(named);
    model.graph.infos.clear();
    Ok(())
}
