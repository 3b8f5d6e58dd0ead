export default defineNuxtConfig({
  compatibilityDate: "2025-05-31",
  telemetry: false,
  nitro: { preset: "cloudflare_module", experimental: { wasm: true } },
});
