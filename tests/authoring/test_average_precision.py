"""Average precision: what is handed to the evaluator, and what comes back."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from edge_runtime.authoring.average_precision import average_precision
from edge_runtime.authoring.coco import CocoBox, Scored, match_labels, read_coco
from edge_runtime.perception.detections import Detections

SCORED = Scored({0: "person", 5: "car"}, {1: 0, 0: 5})


def boxes(*entries: tuple[int, int, tuple[float, float, float, float]], crowd: int = 0) -> list[CocoBox]:
    return [
        CocoBox(image_id=image, category_id=category, bbox=bbox, iscrowd=crowd)
        for image, category, bbox in entries
    ]


def detections(*entries: tuple[tuple[float, float, float, float], float, int]) -> Detections:
    if not entries:
        return Detections.empty()
    xyxy, score, label = zip(*entries, strict=True)
    return Detections(np.array(xyxy, np.float32), np.array(score, np.float32), np.array(label, np.int64))


def test_perfect_is_one_even_with_ids_of_zero() -> None:
    truth = boxes((0, 0, (10, 10, 20, 30)), (3, 5, (0, 0, 8, 8)))
    found = {0: detections(((10, 10, 30, 40), 0.9, 1)), 3: detections(((0, 0, 8, 8), 0.8, 0))}
    result = average_precision(truth, found, SCORED)
    assert [result.mean, result.at_50] == pytest.approx([1, 1])
    assert result.by_class == {"person": pytest.approx(1), "car": pytest.approx(1)}


def test_nothing_found_is_zero() -> None:
    result = average_precision(boxes((1, 0, (0, 0, 9, 9))), {1: Detections.empty()}, SCORED)
    assert (result.mean, result.at_50) == (0, 0)
    assert result.by_class == {"person": 0}  # a class without a box has no figure


def test_a_loose_box_counts_at_50_only() -> None:
    truth = boxes((1, 0, (0, 0, 100, 100)))
    result = average_precision(truth, {1: detections(((0, 0, 100, 72), 0.9, 1))}, SCORED)
    assert result.at_50 == pytest.approx(1)
    assert result.mean == pytest.approx(0.5)  # IoU .72 passes .50 .55 .60 .65 .70


def test_the_wrong_label_and_labels_that_are_not_scored_find_nothing() -> None:
    truth = boxes((1, 0, (0, 0, 9, 9)))
    result = average_precision(truth, {1: detections(((0, 0, 9, 9), 0.9, 0), ((0, 0, 9, 9), 0.9, 7))}, SCORED)
    assert result.mean == 0


def test_a_crowd_is_neither_hit_nor_miss() -> None:
    truth = boxes((1, 0, (0, 0, 9, 9))) + boxes((1, 0, (50, 50, 40, 40)), crowd=1)
    found = {1: detections(((0, 0, 9, 9), 0.5, 1), ((52, 52, 60, 60), 0.9, 1), ((70, 70, 80, 80), 0.8, 1))}
    assert average_precision(truth, found, SCORED).mean == pytest.approx(1)


def test_images_that_were_not_looked_at_do_not_count() -> None:
    truth = boxes((1, 0, (0, 0, 9, 9)), (2, 0, (0, 0, 9, 9)))
    assert average_precision(truth, {1: detections(((0, 0, 9, 9), 0.9, 1))}, SCORED).mean == pytest.approx(1)
    for nothing in ({3: Detections.empty()}, {}):
        with pytest.raises(ValueError, match="no box of the scored categories"):
            average_precision(truth, nothing, SCORED)


def test_it_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    average_precision(boxes((1, 0, (0, 0, 9, 9))), {1: Detections.empty()}, SCORED)
    assert capsys.readouterr() == ("", "")


def test_the_figures_are_those_of_the_evaluators_own_way(truth: Path, tmp_path: Path) -> None:
    path = truth / "coco_val128" / "instances.json"
    real = read_coco(path)
    labels = [category.name for category in real.categories]
    random = np.random.default_rng(0)
    found: dict[int, Detections] = {image.id: Detections.empty() for image in real.images}
    results = []
    for image in real.images[:40]:
        near = [box for box in real.annotations if box.image_id == image.id and random.random() < 0.8]
        rows = []
        for box in near:
            x, y, w, h = np.array(box.bbox) + random.normal(0, 3, 4)
            label = box.category_id if random.random() < 0.9 else int(random.integers(80))
            rows.append(((x, y, x + max(w, 1), y + max(h, 1)), float(random.random()), label))
        found[image.id] = detections(*rows)
        for (x1, y1, x2, y2), score, label in zip(
            found[image.id].xyxy.astype(float).tolist(),
            found[image.id].score.tolist(),
            found[image.id].label.tolist(),
            strict=True,
        ):
            results.append(
                {
                    "image_id": image.id,
                    "category_id": label,
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "score": score,
                }
            )
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = json.loads(path.read_text())
        (tmp_path / "truth.json").write_text(json.dumps({"info": {}, **dataset}))
        reference = COCO(str(tmp_path / "truth.json"))
        evaluator = COCOeval(reference, reference.loadRes(results), "bbox")
        evaluator.evaluate()
        evaluator.accumulate()
        evaluator.summarize()
    ours = average_precision(real.annotations, found, match_labels(labels, real, ()))
    assert 0.1 < ours.mean < 0.9
    assert ours.mean == pytest.approx(evaluator.stats[0], abs=2e-4)
    assert ours.at_50 == pytest.approx(evaluator.stats[1], abs=2e-4)
