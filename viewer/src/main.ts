import "uplot/dist/uPlot.min.css";
import "./style/theme.css";
import "./style/frame.css";
import "./style/plots.css";
import "./style/panels.css";
import "./style/narrow.css";
import { byId } from "./dom.ts";
import { empty, failed, reading, waiting } from "./empty.ts";
import { follow } from "./live.ts";
import { sources } from "./load.ts";
import { Viewer } from "./viewer.ts";

/** If loading takes longer than this, the page says so, in milliseconds. */
const PATIENCE = 250;

/** Shows the traces of this page. If there are none, follows the live trace of the server; if there is none either, shows how to load one. */
async function start(): Promise<void> {
  const page = byId("page");
  const patience = setTimeout(() => page.replaceChildren(reading()), PATIENCE);
  try {
    const found = await sources().finally(() => clearTimeout(patience));
    const viewer = new Viewer(found);
    if (found.length > 0) {
      await viewer.open();
      page.replaceChildren(viewer.host);
    } else if (!location.protocol.startsWith("http") || !(await follow("live", viewer.liveListener(page)))) {
      page.replaceChildren(empty());
    } else if (page.childElementCount === 0) {
      page.replaceChildren(waiting());
    }
  } catch (error) {
    page.replaceChildren(failed(error));
  }
}

void start();
