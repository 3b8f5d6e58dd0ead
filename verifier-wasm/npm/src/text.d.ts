// Files that the bundles hold as strings.

declare module "*.lua" {
  const text: string;
  export default text;
}

declare module "*.sql" {
  const text: string;
  export default text;
}

/** Minified. */
declare module "*.css" {
  const text: string;
  export default text;
}

/** Of one function, minified; called by `(${text})()`. */
declare module "*.page.js" {
  const text: string;
  export default text;
}
