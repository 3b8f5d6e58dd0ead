// Loaded before Next.js: in its edge runtime no bytes can be compiled to WebAssembly, as on Vercel.
const vm = require("node:vm");

const { createContext } = vm;
vm.createContext = (context, options) =>
  createContext(context, {
    ...options,
    codeGeneration: { ...options?.codeGeneration, wasm: false },
  });
