// equations.js [--write]: every equation of docs/equations.md as the page's parser reads it, without a browser: its tree,
// in one line, is that of equations.txt next to this file, in the same order. --write rewrites that file; read what has
// changed.
//
//   {a b} / {c}  a fraction    a_{i}, a^{2}  a subscript, a superscript    sum_{n}  with an index below    sqrt{a}    <a b>  a row
'use strict';
const fs = require('fs');
const path = require('path');

const root = path.join(__dirname, '..', '..');
const expected = path.join(__dirname, 'equations.txt');

class Element {
    constructor(tag) { Object.assign(this, {tag, attributes: {}, children: []}); }
    setAttribute(name, value) { this.attributes[name] = value; }
    append(...children) { this.children.push(...children); }
}
const make = (tag, attributes, ...children) => {
    const element = new Element(tag);
    element.append(...children);
    return element;
};
const source = fs.readFileSync(path.join(root, 'learn', 'page', 'view', 'step_math.js'), 'utf8');
const math = new Function('document', 'page', `${source}; return math;`)({createElementNS: (_, tag) => new Element(tag)}, {make});

const say = (node) => {
    if (typeof node === 'string') return node.trim();
    const children = node.children.filter((child) => child.tag !== 'mspace');
    const opens = (i) => i >= 0 && children[i].tag === 'mo' && '([|'.includes(children[i].children[0]);
    const inner = (child) => (child.tag === 'mrow' ? say(child).slice(1, -1) : say(child));
    const parts = children.map((child, i) => (opens(i - 1) ? inner(child) : say(child)));
    const inBraces = (i) => `{${inner(children[i])}}`;
    switch (node.tag) {
    case 'math': return children.map(inner).join(' ');
    case 'mrow': return `<${parts.join(' ')}>`;
    case 'mfrac': return `${inBraces(0)} / ${inBraces(1)}`;
    case 'msub': return `${parts[0]}_${inBraces(1)}`;
    case 'msup': return `${parts[0]}^${inBraces(1)}`;
    case 'munder': return `sum_${inBraces(1)}`;
    case 'msqrt': return `sqrt{${parts.join(' ')}}`;
    case 'mtext': return `"${parts[0]}"`;
    default: return parts.join('');
    }
};

const find = (node, tag) => (typeof node === 'string' ? [] : [...(node.tag === tag ? [node] : []), ...node.children.flatMap((child) => find(child, tag))]);

// Faults of any tree: a sum of nothing, a fraction that lacks a side.
const isSum = (node) => node.tag === 'munder' || (node.tag === 'mo' && node.children[0] === '∑');
const faults = (node) => {
    if (typeof node === 'string') return [];
    const here = node.children.filter((child) => child.tag !== 'mspace');
    const found = here.flatMap(faults);
    if (node.tag === 'munder') return found;
    if (here.length > 0 && isSum(here[here.length - 1])) found.push('a sum has no body');
    if (node.tag === 'mfrac' && (here.length !== 2 || here.some((side) => isSum(side) || /^<?>?$/.test(say(side))))) found.push('a fraction lacks a side');
    return found;
};

const text = fs.readFileSync(path.join(root, 'docs', 'equations.md'), 'utf8');
const lines = [];
const labels = [];
let failed = false;
const fail = (message) => { console.error(`equations: ${message}`); failed = true; };
for (const section of text.split(/^## /m).slice(1)) {
    const kind = section.slice(0, section.indexOf('\n'));
    for (const equation of math.describe(section.slice(kind.length)).flatMap((block) => find(block, 'math'))) {
        const label = equation.attributes['aria-label'];
        lines.push(`${kind}: ${say(equation)}`);
        labels.push(label);
        for (const fault of faults(equation)) fail(`${kind}: ${label}: ${fault}`);
    }
}
// Texts and signs within brackets, and brackets that nothing closes.
for (const [text, tree] of [['f("of" x, a = b)', 'f ( "of" x , a = b )'], ['(a, "b") / 2', '{a , "b"} / {2}'], ['x[n "odd"]', 'x_{n "odd"}'],
    ['() (a =', '(  ) ( a = )'], ['a[', 'a']]) {
    const read = say(math.display(text));
    if (read !== tree) fail(`${text} is read as ${read}; it is ${tree}`);
}
const written = lines.join('\n') + '\n';
if (process.argv[2] === '--write') fs.writeFileSync(expected, written);
const wanted = fs.readFileSync(expected, 'utf8').split('\n');
const at = written.split('\n').findIndex((line, i) => line !== wanted[i]);
if (at >= 0) fail(`line ${at + 1} of equations.txt: ${wanted[at]}\n  is now ${written.split('\n')[at]}, of ${labels[at]}; --write rewrites it`);
if (lines.length === 0 || wanted.length !== written.split('\n').length) fail(`${lines.length} equations; equations.txt has ${wanted.length - 1}`);
if (failed) process.exit(1);
console.log(`equations: ${lines.length} are read as equations.txt has them`);
