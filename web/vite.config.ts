// One script, one style sheet, relative addresses: the page works under any path prefix.
import { defineConfig } from "vite";
import solid from "vite-plugin-solid";

// `npm run dev` serves the sources and takes the API from a running `trackside ui`.
const server = process.env.TRACKSIDE_PAGE_SERVER ?? "http://127.0.0.1:8477";

export default defineConfig({
  base: "./",
  plugins: [solid()],
  server: { host: "127.0.0.1", proxy: { "/api": { target: server, changeOrigin: true, headers: { origin: server }, rewrite: (path) => `/ui${path}` } } },
  build: {
    outDir: process.env.TRACKSIDE_PAGE_FOLDER ?? "../src/trackside/page/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: { output: { entryFileNames: "assets/page-[hash].js", assetFileNames: "assets/[name]-[hash][extname]" } },
  },
});
