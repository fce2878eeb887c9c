//! Where in source files the operators, match arms, guards, fields and function bodies are that cargo-mutants changes. Its own
//! list says where a mutant begins; to put a switch around it takes the bytes of its operands, too.
//!
//! Prints JSON: for each place its kind, as cargo-mutants calls it, the line and column that its list has, and offsets of bytes.

use proc_macro2::Span;
use serde_json::{Value, json};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

struct Places {
    file: String,
    text: String,
    found: Vec<Value>,
    /// How many constants this is in: a switch is no constant.
    constants: usize,
    /// Whether a match, from the outermost on, has a `_` that takes what an arm leaves.
    takes_rest: Vec<bool>,
}

fn bytes(span: Span) -> (usize, usize) {
    let range = span.byte_range();
    (range.start, range.end)
}

/// Whether it binds names for what follows: that is no expression by itself.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => {
            matches!(both.op, syn::BinOp::And(_)) && (has_let(&both.left) || has_let(&both.right))
        }
        _ => false,
    }
}

impl Places {
    fn found(&mut self, kind: &str, at: Span, mut place: Value) {
        let start = at.start();
        place["kind"] = kind.into();
        place["file"] = self.file.clone().into();
        place["at"] = json!([start.line, start.column + 1]);
        place["constant"] = (self.constants > 0).into();
        self.found.push(place);
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let outside = std::mem::replace(&mut self.constants, usize::from(signature.constness.is_some()));
        if let Some(first) = block.stmts.first() {
            let (_, open) = bytes(block.brace_token.span.open());
            self.found("FnValue", first.span(), json!({ "open": open }));
        }
        visit::visit_block(self, block);
        self.constants = outside;
    }

    fn constant(&mut self, visit: impl FnOnce(&mut Self)) {
        self.constants += 1;
        visit(self);
        self.constants -= 1;
    }
}

impl<'a> Visit<'a> for Places {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, item: &'a syn::ItemConst) {
        self.constant(|places| visit::visit_item_const(places, item));
    }

    fn visit_impl_item_const(&mut self, item: &'a syn::ImplItemConst) {
        self.constant(|places| visit::visit_impl_item_const(places, item));
    }

    fn visit_item_static(&mut self, item: &'a syn::ItemStatic) {
        self.constant(|places| visit::visit_item_static(places, item));
    }

    fn visit_type_array(&mut self, array: &'a syn::TypeArray) {
        self.constant(|places| visit::visit_type_array(places, array));
    }

    fn visit_expr_repeat(&mut self, repeat: &'a syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.constant(|places| places.visit_expr(&repeat.len));
    }

    fn visit_expr_const(&mut self, block: &'a syn::ExprConst) {
        self.constant(|places| visit::visit_expr_const(places, block));
    }

    fn visit_variant(&mut self, variant: &'a syn::Variant) {
        self.constant(|places| visit::visit_variant(places, variant));
    }

    fn visit_generic_argument(&mut self, argument: &'a syn::GenericArgument) {
        self.constant(|places| visit::visit_generic_argument(places, argument));
    }

    fn visit_pat(&mut self, _: &'a syn::Pat) {}

    fn visit_expr_binary(&mut self, both: &'a syn::ExprBinary) {
        let (start, end) = bytes(both.span());
        let (operator, after) = bytes(both.op.span());
        let (_, left) = bytes(both.left.span());
        let (right, _) = bytes(both.right.span());
        let lets = has_let(&both.left) || has_let(&both.right);
        let text = self.text.get(operator..after).unwrap_or_default().to_owned();
        let place = json!({"start": start, "left": left, "operator": operator, "after": after, "right": right, "end": end,
            "text": text, "lets": lets});
        self.found("BinaryOperator", both.op.span(), place);
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        let (start, end) = bytes(unary.span());
        let (operator, after) = bytes(unary.op.span());
        let text = self.text.get(operator..after).unwrap_or_default().to_owned();
        let place = json!({"start": start, "after": after, "end": end, "text": text});
        self.found("UnaryOperator", unary.op.span(), place);
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_match(&mut self, of: &'a syn::ExprMatch) {
        let rest = |arm: &syn::Arm| matches!(arm.pat, syn::Pat::Wild(_)) && arm.guard.is_none();
        self.takes_rest.push(of.arms.iter().any(rest));
        visit::visit_expr_match(self, of);
        self.takes_rest.pop();
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            let (start, end) = bytes(guard.span());
            self.found("MatchArmGuard", guard.span(), json!({"start": start, "end": end}));
        } else {
            let (_, pattern) = bytes(arm.pat.span());
            let place = json!({"pattern": pattern, "takes_rest": self.takes_rest.last()});
            self.found("MatchArm", arm.span(), place);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, made: &'a syn::ExprStruct) {
        for field in &made.fields {
            let (Some(rest), syn::Member::Named(name)) = (&made.rest, &field.member) else { continue };
            let (start, end) = bytes(field.expr.span());
            let place = json!({"start": start, "end": end, "rest": bytes(rest.span()), "name": name.to_string(),
                "short": field.colon_token.is_none()});
            self.found("StructField", field.span(), place);
        }
        visit::visit_expr_struct(self, made);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut found = Vec::new();
    for file in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&file)?;
        let parsed = syn::parse_file(&text)?;
        let mut places = Places { file, text, found, constants: 0, takes_rest: Vec::new() };
        places.visit_file(&parsed);
        found = places.found;
    }
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}
