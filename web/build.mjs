// Bundles with esbuild. `node build.mjs dist` makes the page in dist/ (what the binary embeds);
// `dev`, `test`, `browser` and `firefox` make the development server and the tests in build/.
import { build } from "esbuild";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";

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

const contents = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath ?? entry.path}/${entry.name}`.slice(folder.length))
    .sort();
/** Puts `made` in the place of `folder`, unless it has the same files: cargo builds what embeds them again when they are touched. */
const replace = (folder, made) => {
  const same = existsSync(folder) && contents(folder).join() === contents(made).join() &&
    contents(made).every((file) => readFileSync(folder + file).equals(readFileSync(made + file)));
  rmSync(same ? made : folder, { recursive: true, force: true });
  if (!same) renameSync(made, folder);
};

const make = {
  async dist() {
    rmSync("dist.new", { recursive: true, force: true });
    mkdirSync("dist.new/assets", { recursive: true });
    cpSync("static/index.html", "dist.new/index.html");
    cpSync("dashboard/static/dashboard.html", "dist.new/dashboard.html");
    cpSync("static/icon.svg", "dist.new/assets/icon.svg");
    await build({
      entryPoints: {
        app: "src/page/main.ts",
        tiles: "src/page/tiles.worker.ts",
        style: "static/style.css",
        dashboard: "dashboard/page/main.ts",
        "dashboard-style": "dashboard/static/dashboard.css",
      },
      outdir: "dist.new/assets",
      bundle: true,
      minify: process.env.TRANSECT_MINIFY !== "no",
      format: "esm",
      target: ["chrome110", "firefox115"],
      logLevel: "warning",
      legalComments: "none",
    });
    replace("dist", "dist.new");
  },
  dev: () => build({ ...node, entryPoints: ["dev/server.ts", "dev/serve.ts"], outdir: "build/dev" }),
  test: () => {
    rmSync("build/test", { recursive: true, force: true });
    return build({ ...node, entryPoints: files("test", ".test.ts"), outdir: "build/test" });
  },
  firefox: () => {
    rmSync("build/firefox", { recursive: true, force: true });
    return build({ ...node, entryPoints: files("firefox", ".test.ts"), outdir: "build/firefox" });
  },
  browser: () => {
    rmSync("build/browser", { recursive: true, force: true });
    return build({ ...node, entryPoints: [...files("browser", ".test.ts"), "browser/tour.ts", "browser/pictures.ts", "browser/dashboard-tour.ts"], outdir: "build/browser" });
  },
};
for (const part of parts) await make[part]();
