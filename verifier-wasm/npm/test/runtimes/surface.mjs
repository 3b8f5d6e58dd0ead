// The public surface of the installed package, as its type declarations have it: every function and
// class that an entry exports, every method and property of everything that these return, and what
// each is called with.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import ts from "typescript";

const OPTIONS = {
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  strict: true,
  types: [],
};

/**
 * How deep the members of an argument are listed: `createGuard`, its option `store`, that one's
 * method `consume`.
 */
const DEPTH = 3;

/**
 * @param {string} installed the folder of the package
 * @returns {{ entry: string, owner: string, name: string, kind: "function" | "class" | "value",
 *   parameters?: object[] }[]} owner: the type whose member it is, or "" for what the entry itself
 * exports; parameters of all overloads, each with its `name` and the `members` of its type, as far
 * as the package declares it
 */
export function surfaceOf(installed) {
  const { exports } = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  const entries = Object.entries(exports)
    .filter(([, target]) => typeof target === "object" && target.types)
    // What is declared for CommonJS is the same once more.
    .map(([entry, { types }]) => [entry, { types: types.default ?? types }])
    // A module is no code of the package.
    .filter(([, { types }]) => !types.endsWith(".wasm.ts"));
  const files = entries.map(([, { types }]) => join(installed, types));
  const program = ts.createProgram({ rootNames: files, options: OPTIONS });
  const unknown = program.getOptionsDiagnostics();
  if (unknown.length > 0)
    throw new Error(ts.formatDiagnostics(unknown, ts.createCompilerHost(OPTIONS)));
  return entries.flatMap(([entry], place) => {
    const found = new Walk(program, installed, entry).of(program.getSourceFile(files[place]));
    if (found.length === 0) throw new Error(`the declarations of ${entry} declare nothing`);
    return found;
  });
}

class Walk {
  #checker;
  #isOurs;
  #entry;
  #found = [];
  #seen = new Set();

  constructor(program, installed, entry) {
    this.#checker = program.getTypeChecker();
    this.#isOurs = (declaration) =>
      declaration.getSourceFile().fileName.startsWith(`${installed}/`);
    this.#entry = entry;
  }

  of(source) {
    for (const symbol of this.#checker.getExportsOfModule(
      this.#checker.getSymbolAtLocation(source),
    )) {
      if (isTypeOnly(symbol)) continue;
      const target =
        symbol.flags & ts.SymbolFlags.Alias ? this.#checker.getAliasedSymbol(symbol) : symbol;
      if (target.flags & ts.SymbolFlags.Value) this.#value("", symbol.name, target);
    }
    return this.#found;
  }

  #value(owner, name, symbol) {
    const type = this.#checker.getTypeOfSymbol(symbol);
    const calls = this.#signatures(type, ts.SignatureKind.Call);
    const news = this.#signatures(type, ts.SignatureKind.Construct);
    const add = (kind, signatures) => {
      const parameters = signatures.length > 0 ? { parameters: this.#parameters(signatures) } : {};
      this.#found.push({ entry: this.#entry, owner, name, kind, ...parameters });
      for (const signature of signatures)
        this.#returned(signature.getReturnType(), `${owner || name}.${name}`);
    };
    if (symbol.flags & ts.SymbolFlags.Class) {
      add("class", news);
      // Those of a subclass are its own, such as its reason.
      for (const member of this.#members(type))
        if (member.name !== "prototype") this.#value(name, member.name, member);
      this.#returned(this.#checker.getDeclaredTypeOfSymbol(symbol), name);
    } else if (calls.length > 0) add("function", calls);
    else {
      add("value", []);
      this.#returned(type, `${owner}.${name}`);
    }
  }

  /** Lists the members of whatever a value of this type is, or holds, or comes to. */
  #returned(type, path) {
    const { aliasSymbol, symbol } = type;
    if (type.isUnionOrIntersection()) {
      for (const part of type.types) this.#returned(part, aliasSymbol?.name ?? path);
      return;
    }
    for (const argument of this.#checker.getTypeArguments(type)) this.#returned(argument, path);
    if (!(type.flags & ts.TypeFlags.Object) || this.#seen.has(type)) return;
    this.#seen.add(type);
    const isNamed = symbol !== undefined && !symbol.name.startsWith("__");
    const owner = isNamed ? symbol.name : (aliasSymbol?.name ?? path);
    for (const member of this.#members(type)) this.#value(owner, member.name, member);
  }

  #members(type) {
    // What is private is not there for callers; what begins with underscores is there
    // for compilers alone.
    return this.#checker
      .getPropertiesOfType(type)
      .filter(({ name, declarations }) => !/#|^__/.test(name) && declarations?.some(this.#isOurs));
  }

  /** Of an optional method, too. */
  #signatures(type, kind) {
    return this.#checker.getSignaturesOfType(this.#checker.getNonNullableType(type), kind);
  }

  /** By place; what overloads take in the same place is one parameter with the members of all. */
  #parameters(signatures) {
    const parameters = [];
    for (const signature of signatures) {
      for (const [place, symbol] of signature.getParameters().entries()) {
        const members = this.#taken(this.#checker.getTypeOfSymbol(symbol), DEPTH);
        parameters[place] = {
          name: symbol.name,
          members: { ...parameters[place]?.members, ...members },
        };
      }
    }
    return parameters;
  }

  /**
   * The names of what an argument of this type has, each with `calls`, whether it is called, and
   * its own members.
   */
  #taken(type, depth) {
    const parts = type.isUnion() ? type.types : [type];
    const members = depth === 0 ? [] : parts.flatMap((part) => this.#members(part));
    return Object.fromEntries(
      members.map((member) => {
        const inner = this.#checker.getTypeOfSymbol(member);
        const calls = this.#signatures(inner, ts.SignatureKind.Call).length > 0;
        return [member.name, { calls, members: calls ? {} : this.#taken(inner, depth - 1) }];
      }),
    );
  }
}

/** What is exported for its type alone: nothing of it is there at run time. */
function isTypeOnly({ declarations = [] }) {
  return declarations.some(
    (declaration) =>
      ts.isExportSpecifier(declaration) &&
      (declaration.isTypeOnly || declaration.parent.parent.isTypeOnly),
  );
}
