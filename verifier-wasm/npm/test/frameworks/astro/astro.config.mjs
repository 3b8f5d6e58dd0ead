import node from "@astrojs/node";

export default {
  output: "server",
  adapter: node({ mode: "standalone" }),
  // Another framework beside it has another version of this one.
  vite: { ssr: { noExternal: ["cookie"] } },
};
