// The public surface as text: what index.d.ts exports, declaration by declaration, and the closed list of error codes.
// `npm run check` compares it with the kept snapshot, the documentation and the code.

import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import ts from 'typescript';
import { filesBelow, read } from './files.mjs';
import { root } from './proc.mjs';

const ERROR_CODE = /\bERR_QUOTA_[A-Z][A-Z_]*[A-Z]\b/g;

/** Every error code that a source file can produce. */
export function errorCodesInSources() {
  const sources = [
    ...filesBelow('src', (name) => name.endsWith('.rs')),
    ...filesBelow('lib', (name) => name.endsWith('.js')),
    'index.js',
  ];
  return new Set(sources.flatMap((path) => read(path).match(ERROR_CODE) ?? []));
}

/** The error codes that the documentation lists, each under a heading of its own page. */
export function errorCodesInDocs() {
  const listed = new Set([...read('docs/errors.md').matchAll(/^\| \[`(ERR_QUOTA_\w+)`\]/gm)].map((m) => m[1]));
  const pages = new Set(filesBelow('docs/errors', (name) => name.endsWith('.md')).map((p) => p.slice(12, -3)));
  return { listed, pages };
}

const printer = ts.createPrinter({ removeComments: true, newLine: ts.NewLineKind.LineFeed });

/**
 * The named exports of a declaration file: the declaration's text without comments, its doc comment, the file it is
 * in; `value` tells functions, classes and constants from types.
 */
export function publicTypes(entry = 'index.d.ts') {
  const path = join(root, entry);
  const program = ts.createProgram([path], {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2022,
    noEmit: true,
  });
  const checker = program.getTypeChecker();
  const module = checker.getSymbolAtLocation(program.getSourceFile(path));
  const out = new Map();
  for (const symbol of checker.getExportsOfModule(module)) {
    if (symbol.name === 'default') continue;
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    const declarations = (target.declarations ?? []).map((node) =>
      node.kind === ts.SyntaxKind.VariableDeclaration ? node.parent.parent : node,
    );
    const text = declarations
      .map((node) => printer.printNode(ts.EmitHint.Unspecified, node, node.getSourceFile()))
      .map((line) => line.replace(/^(export |declare )+/, ''))
      .join('\n');
    out.set(symbol.name, {
      text,
      value: Boolean(target.flags & ts.SymbolFlags.Value),
      documentation: ts.displayPartsToString(target.getDocumentationComment(checker)).trim(),
      members: memberNames(checker, target),
      callable: Boolean(target.flags & ts.SymbolFlags.Function),
      parameters: parameterNames(target),
      file: relative(root, declarations[0].getSourceFile().fileName).replaceAll('\\', '/'),
    });
  }
  return out;
}

function memberNames(checker, symbol) {
  if (!(symbol.flags & ts.SymbolFlags.Interface)) return [];
  return checker.getPropertiesOfType(checker.getDeclaredTypeOfSymbol(symbol)).map(({ name }) => name);
}

function parameterNames(symbol) {
  const { parameters = [] } = symbol.valueDeclaration ?? {};
  return parameters.map(({ name, questionToken }) => `${name.text}${questionToken ? '?' : ''}`);
}

/** The names that `require('quota-core')` has. */
export function runtimeExports() {
  const require = createRequire(join(root, 'package.json'));
  return Object.keys(require(join(root, 'index.js'))).sort();
}

/** The snapshot's text: types first, then error codes; sorted, so that a diff shows what changed and nothing else. */
export function surface() {
  const types = [...publicTypes()].sort(([a], [b]) => (a < b ? -1 : 1));
  return [
    '# The public surface. Made by `npm run check -- --update`; a change here is a change for users: see CONTRIBUTING.md.',
    '',
    ...types.map(([, { text }]) => text),
    '',
    '# Error codes',
    ...[...errorCodesInSources()].sort(),
    '',
  ].join('\n');
}

const SECTIONS = [
  ['index.d.ts', 'Instances'],
  ['types/core.d.ts', 'Errors'],
  ['types/ratelimit.d.ts', 'Rate limits, leases, cooldowns, learned limits'],
  ['types/admission.d.ts', 'Admission in one call'],
  ['types/probe.d.ts', 'Early recovery of cooldowns'],
  ['types/provider-quota.d.ts', 'Provider quota'],
  ['types/quota-share.d.ts', 'Quota sharing'],
  ['types/quota-share-sched.d.ts', 'Quota sharing: scheduling, signals, names'],
  ['types/redis.d.ts', 'Many replicas'],
  ['types/constants.d.ts', 'Constants'],
];

/** The first sentence of a doc comment, on one line, fit for a table's cell. */
function summaryOf(documentation) {
  const text = documentation
    .split(/\n\s*\n/)[0]
    .replace(/\{@link (\S+?)\}/g, '`$1`')
    .replace(/\s+/g, ' ');
  const sentence = /^.*?[.:](?=\s+[A-Z`]|$)/.exec(text)?.[0] ?? text;
  return sentence.replaceAll('|', '\\|').trim();
}

/** docs/api.md: every value that the package exports, with the first sentence of its doc comment. */
export function apiPage() {
  const types = publicTypes();
  const files = new Set(SECTIONS.map(([file]) => file));
  const others = [...new Set([...types.values()].filter(({ value }) => value).map(({ file }) => file))]
    .filter((file) => !files.has(file))
    .map((file) => [file, file]);
  const lines = [
    '# API',
    '',
    'Every value that the package exports, by part. The types in the linked files say arguments, units, results and errors.',
    'Functions are there twice: on an instance (`createQuotaCore`), and by name on the default one (`configure`).',
    'Made from the types by `npm run check -- api --update`.',
  ];
  for (const [file, title] of [...SECTIONS, ...others]) {
    const values = [...types].filter(([, it]) => it.value && it.file === file).sort(([a], [b]) => (a < b ? -1 : 1));
    if (values.length === 0) continue;
    lines.push('', `## ${title}`, '', `[${file}](../${file})`, '', '| Name | What |', '| --- | --- |');
    for (const [name, { callable, parameters, documentation }] of values) {
      const signature = callable ? `${name}(${parameters.join(', ')})` : name;
      lines.push(`| \`${signature}\` | ${summaryOf(documentation)} |`);
    }
  }
  return `${lines.join('\n')}\n`;
}
