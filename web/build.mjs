// Bundles with esbuild. `node build.mjs dist` makes the page in dist/ (what the binary embeds);
// `dev`, `test` and `browser` make the development server and the tests in build/.
import { build } from "esbuild";
import { cpSync, mkdirSync, readdirSync, rmSync } from "node:fs";

const parts = process.argv.slice(2);
const node = {
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  packages: "external",
  outExtension: { ".js": ".mjs" },
  sourcemap: "inline",
  logLevel: "warning",
};
const files = (folder, ending) =>
  readdirSync(folder).filter((name) => name.endsWith(ending)).map((name) => `${folder}/${name}`);

const make = {
  async dist() {
    rmSync("dist", { recursive: true, force: true });
    mkdirSync("dist/assets", { recursive: true });
    cpSync("static/index.html", "dist/index.html");
    cpSync("dashboard/static/dashboard.html", "dist/dashboard.html");
    cpSync("static/icon.svg", "dist/assets/icon.svg");
    await build({
      entryPoints: {
        app: "src/page/main.ts",
        tiles: "src/page/tiles.worker.ts",
        style: "static/style.css",
        dashboard: "dashboard/page/main.ts",
        "dashboard-style": "dashboard/static/dashboard.css",
      },
      outdir: "dist/assets",
      bundle: true,
      minify: process.env.TRANSECT_MINIFY !== "no",
      format: "esm",
      target: ["chrome110", "firefox115"],
      logLevel: "warning",
      legalComments: "none",
    });
  },
  dev: () => build({ ...node, entryPoints: ["dev/server.ts", "dev/serve.ts"], outdir: "build/dev" }),
  test: () => {
    rmSync("build/test", { recursive: true, force: true });
    return build({ ...node, entryPoints: files("test", ".test.ts"), outdir: "build/test" });
  },
  browser: () => {
    rmSync("build/browser", { recursive: true, force: true });
    return build({ ...node, entryPoints: [...files("browser", ".test.ts"), "browser/tour.ts", "browser/pictures.ts", "browser/dashboard-tour.ts"], outdir: "build/browser" });
  },
};
for (const part of parts) await make[part]();
