"""BibTeX of the papers that models are from, or more than one benchmark."""

from __future__ import annotations

BERGEN = """@inproceedings{bergen2021edge,
  title = {Systematic Generalization with Edge Transformers},
  author = {Bergen, Leon and O'Donnell, Timothy J. and Bahdanau, Dzmitry},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2021}
}"""
CHAABOUNI = """@inproceedings{chaabouni2021can,
  title = {Can Transformers Jump Around Right in Natural Language? Assessing Performance Transfer from {SCAN}},
  author = {Chaabouni, Rahma and Dess{\\`i}, Roberto and Kharitonov, Eugene},
  booktitle = {BlackboxNLP Workshop at EMNLP},
  year = {2021}
}"""
CHAKRAVARTHY = """@inproceedings{chakravarthy2022systematicity,
  title = {Systematicity Emerges in Transformers when Abstract Grammatical Roles Guide Attention},
  author = {Chakravarthy, Ayush K. and Russin, Jacob Labe and O'Reilly, Randall},
  booktitle = {North American Chapter of the Association for Computational Linguistics: Student Research Workshop},
  year = {2022}
}"""
CSORDAS = """@inproceedings{csordas2021devil,
  title = {The Devil is in the Detail: Simple Tricks Improve Systematic Generalization of Transformers},
  author = {Csord{\\'a}s, R{\\'o}bert and Irie, Kazuki and Schmidhuber, J{\\"u}rgen},
  booktitle = {Conference on Empirical Methods in Natural Language Processing},
  year = {2021}
}"""
KEYSERS = """@inproceedings{keysers2020measuring,
  title = {Measuring Compositional Generalization: A Comprehensive Method on Realistic Data},
  author = {Keysers, Daniel and Sch{\\"a}rli, Nathanael and Scales, Nathan and Buisman, Hylke and Furrer, Daniel and
            Kashubin, Sergii and Momchev, Nikola and Sinopalnikov, Danila and Stafiniak, Lukasz and Tihon, Tibor and
            Tsarkov, Dmitry and Wang, Xiao and van Zee, Marc and Bousquet, Olivier},
  booktitle = {International Conference on Learning Representations},
  year = {2020}
}"""
PETTY = """@article{petty2023impact,
  title = {The Impact of Depth and Width on Transformer Language Model Generalization},
  author = {Petty, Jackson and van Steenkiste, Sjoerd and Dasgupta, Ishita and Sha, Fei and Garrette, Dan and
            Linzen, Tal},
  journal = {arXiv preprint arXiv:2310.19956},
  year = {2023}
}"""
QIU = """@inproceedings{qiu2022improving,
  title = {Improving Compositional Generalization with Latent Structure and Data Augmentation},
  author = {Qiu, Linlu and Shaw, Peter and Pasupat, Panupong and Nowak, Pawel Krzysztof and Linzen, Tal and Sha, Fei and
            Toutanova, Kristina},
  booktitle = {North American Chapter of the Association for Computational Linguistics},
  year = {2022}
}"""
