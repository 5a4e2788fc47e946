import { defineConfig } from "vite";

export default defineConfig({
  build: {
    // Images stay files of their own, which the edge can cache for ever.
    assetsInlineLimit: 0,
    rolldownOptions: {
      input: ["index.html", "about.html", "sky.html", "404.html"],
    },
  },
});
